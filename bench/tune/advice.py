"""What would make an input pipeline faster, ranked by how much."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.tune.bound_lifts import Lift
from bench.tune.candidates import DEFAULTS, Alters
from bench.tune.sweep import Sweep

LEAST_FACTOR = 1.05
"""What is expected to give less than this is no advice."""

_SWEPT = ("threads", "in flight", "fast")
"""Changes that a sweep measures; what follows from ceilings is told where it did not."""


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


def advices(sweep: Sweep, lifts: Iterable[Lift]) -> list[Advice]:
    """Everything that is worth a change, the greatest factor first.

    Args:
        sweep: What was measured.
        lifts: What follows from the ceilings.
    """
    measured = list(_measured(sweep))
    tried = {name for one in measured for name in one.settings} | _tried(sweep)
    expected = [_expected(lift) for lift in lifts if not _was_tried(lift, tried)]
    found = [one for one in (*measured, *expected) if one.factor >= LEAST_FACTOR]
    return sorted(found, key=lambda one: -one.factor)


def _measured(sweep: Sweep) -> Iterable[Advice]:
    """The chosen settings, and options that were faster than the spread of their rounds."""
    for name, candidate in sweep.candidates.items():
        heat = sweep.heat_of(name)
        if name == DEFAULTS or not heat.beats(name, DEFAULTS):
            continue
        if name != sweep.chosen and not candidate.alters:
            continue
        ratios = heat.ratios(name, DEFAULTS)
        why = f"measured in {len(ratios)} rounds beside the defaults"
        yield Advice(
            name,
            heat.factor(name, DEFAULTS),
            min(ratios),
            max(ratios),
            True,
            why,
            candidate.alters,
            candidate.settings,
        )


def _tried(sweep: Sweep) -> set[str]:
    return {name for candidate in sweep.candidates.values() for name in candidate.settings}


def _was_tried(lift: Lift, tried: set[str]) -> bool:
    return lift.change in _SWEPT and bool(lift.settings.keys() & tried)


def _expected(lift: Lift) -> Advice:
    alters: Alters = "pixels" if lift.change in ("fast", "smaller") else ""
    words = lift.command or ", ".join(f"{name}={value!r}" for name, value in lift.settings.items())
    return Advice(
        words or lift.change,
        lift.factor,
        lift.factor,
        lift.factor,
        False,
        lift.why,
        alters,
        dict(lift.settings),
    )
