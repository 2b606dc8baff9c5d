"""The outcome of a search and of ceilings, put together."""

from collections.abc import Mapping
from typing import Any

import torch

from bench.compare.timer import Rate
from bench.tune.advice import Advice, expected_advice, measured_advice, ranked
from bench.tune.bound import Bound
from bench.tune.bound_lifts import find_lifts
from bench.tune.candidates import DEFAULTS
from bench.tune.ceilings import Ceilings
from bench.tune.recipe_lift import recipe_lifts
from bench.tune.sweep import Sweep
from bench.tune.tuning import Tried, Tuning
from bench.tune.words import doubt_of, sentence_of, sentence_without_ceilings
from dali_pipes.stats.stats import Stats


def outcome_of(
    found: Sweep,
    measured: tuple[Ceilings, Bound] | None,
    stats: Stats | None,
    *,
    recipe: Any,
    settings: Mapping[str, Any],
    wanted: float | None,
    unit: str,
    seconds: float,
    interrupted: bool,
) -> Tuning:
    """Say what was found.

    Args:
        found: What the search found; the defaults had a turn.
        measured: Ceilings and what follows; None where they could not be measured.
        stats: What the loader with the defaults did in its latest turn.
        recipe: The recipe.
        settings: What the user gave.
        wanted: Samples per second that the training asks for.
        unit: "images" or "clips".
        seconds: How long it took.
        interrupted: Whether somebody ended it.
    """
    heat, changes = found.heat_of(found.chosen), dict(found.candidates[found.chosen].settings)
    made, enough = made_by(found, DEFAULTS), wanted is not None and heat.is_enough(DEFAULTS)
    ceilings, bound = measured or (None, None)
    limit, doubt = _limit(bound, made, stats, wanted=wanted, unit=unit, enough=enough)
    told, beside = _divided({**settings, **changes})
    return Tuning(
        settings=told,
        changes=changes,
        beside=beside,
        unit=unit,
        wanted=wanted,
        expected=_rate(found, found.chosen),
        before=_rate(found, DEFAULTS),
        makes=made_by(found, found.chosen),
        makes_before=made,
        enough=wanted is not None and heat.is_enough(found.chosen),
        bottleneck=limit,
        doubt=doubt,
        advice=() if enough else _advice(found, recipe, measured),
        tried=tuple(_tried(found, name) for name in found.candidates),
        absent=found.absent,
        left_out=found.left_out,
        ceilings=ceilings,
        bound=bound,
        stats=stats,
        seconds=seconds,
        interrupted=interrupted,
    )


def _limit(
    bound: Bound | None,
    made: float,
    stats: Stats | None,
    *,
    wanted: float | None,
    unit: str,
    enough: bool,
) -> tuple[str, str]:
    """Say what limits the defaults, and what speaks against it."""
    about: dict[str, Any] = {"wanted": wanted, "unit": unit, "enough": enough}
    if bound is None:
        return sentence_without_ceilings(made, stats, **about), ""
    return sentence_of(bound, made, stats, **about), doubt_of(bound, made, stats, enough=enough)


def _advice(
    found: Sweep, recipe: Any, measured: tuple[Ceilings, Bound] | None
) -> tuple[Advice, ...]:
    if measured is None:
        return ranked(measured_advice(found))
    more = recipe_lifts(recipe, *measured)
    return ranked([*measured_advice(found), *expected_advice(found, find_lifts(*measured)), *more])


def made_by(found: Sweep, name: str) -> float:
    """Samples per second that a candidate makes if nobody waits for a training step."""
    return found.free[name].rate if name in found.free else _rate(found, name).median


def _rate(found: Sweep, name: str) -> Rate:
    """What a candidate gave in the turns that judge it; the defaults were never picked, so all their turns count."""
    rates = found.heat_of(name).rates(name)
    if name == DEFAULTS:
        rates = [*found.alone.rates(name), *found.together.rates(name)]
    return Rate(tuple(rates))


def _tried(found: Sweep, name: str) -> Tried:
    heat = found.heat_of(name)
    return Tried(
        name,
        _rate(found, name),
        heat.factor(name, DEFAULTS),
        heat.wait_share(name),
        name != DEFAULTS and heat.beats(name, DEFAULTS),
        found.candidates[name].alters,
    )


def _divided(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Divide settings into those that YAML holds, and others as they are written in Python."""
    told: dict[str, Any] = {}
    beside: dict[str, str] = {}
    for name, value in settings.items():
        plain = str(value) if isinstance(value, torch.device) else value
        if isinstance(plain, bool | int | float | str):
            told[name] = plain
        elif plain is not None:
            beside[name] = repr(plain)
    return told, beside
