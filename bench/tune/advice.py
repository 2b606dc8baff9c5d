"""What would make an input pipeline faster, ranked by how much."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.tune.bound_lifts import Lift
from bench.tune.candidates import DEFAULTS, Alters
from bench.tune.sweep import Sweep

LEAST_FACTOR = 1.05
"""What is expected to give less than this is no advice."""

_SWEPT = ("threads", "in flight", "fast", "block shuffle")
"""Changes that a sweep measures; what follows from ceilings is told where it did not."""

_WORDS = {
    "pack": "gpu-aug pack DATA OUT, then shuffle='block'",
    "smaller": "store smaller copies of the images",
    "cores": "leave the cores to the loader",
}


@dataclass(frozen=True)
class Advice:
    """A change, and what to expect of it.

    Attributes:
        change: What to do, in words: a setting, or a command.
        factor: So many times as fast as the defaults.
        low: The least that a round gave; as `factor` where it was not measured as a whole.
        high: The most that a round gave.
        measured: Whether it was tried as a whole; else its parts were measured, and the rest follows.
        why: How that is known, one clause.
        alters: What else becomes different.
        settings: Arguments of Loader or open_dataset that do it; empty where data must be rewritten.
    """

    change: str
    factor: float
    low: float
    high: float
    measured: bool
    why: str
    alters: Alters = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


def ranked(advice: Iterable[Advice]) -> tuple[Advice, ...]:
    """What is worth a change, the greatest factor first."""
    worth = [one for one in advice if one.factor >= LEAST_FACTOR]
    return tuple(sorted(worth, key=lambda one: -one.factor))


def measured_advice(sweep: Sweep) -> list[Advice]:
    """The chosen settings, and options that were faster than the spread of their rounds."""
    found = []
    for name, candidate in sweep.candidates.items():
        heat = sweep.heat_of(name)
        wanted = name == sweep.chosen or candidate.alters
        if name == DEFAULTS or not wanted or not heat.beats(name, DEFAULTS):
            continue
        ratios = heat.ratios(name, DEFAULTS)
        why = f"measured in {len(ratios)} rounds beside the defaults"
        low, high = min(ratios), max(ratios)
        factor, settings = heat.factor(name, DEFAULTS), candidate.settings
        found.append(Advice(name, factor, low, high, True, why, candidate.alters, settings))
    return found


def expected_advice(sweep: Sweep, lifts: Iterable[Lift]) -> list[Advice]:
    """What follows from the ceilings, but for what was measured as a whole.

    Args:
        sweep: What was measured.
        lifts: What follows from the ceilings.
    """
    tried = {name for candidate in sweep.candidates.values() for name in candidate.settings}
    return [
        _expected(lift)
        for lift in lifts
        if not (lift.change in _SWEPT and lift.settings.keys() & tried)
    ]


def _expected(lift: Lift) -> Advice:
    settings = dict(lift.settings)
    words = ", ".join(f"{name}={value!r}" for name, value in settings.items())
    if lift.change == "cache":
        words = f"open_dataset(..., {words})"
    alters: Alters = "pixels" if lift.lossy else ("order" if "shuffle" in settings else "")
    return Advice(
        _WORDS.get(lift.change, words or lift.change),
        lift.factor,
        lift.factor,
        lift.factor,
        False,
        lift.why,
        alters,
        settings,
    )
