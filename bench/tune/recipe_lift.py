"""What the recipe and the number of cores cost: what cheaper operations, or more cores, would lift a loader to."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import torch

from bench.micro.recipe_costs import USUAL_SIZE, cost, seconds_of
from bench.micro.turns import Turns
from bench.tune.advice import Advice
from bench.tune.bound import STEP, Bound, find_bound
from bench.tune.bound_resources import CORES
from bench.tune.ceilings import Ceilings
from gpu_aug import CenterCrop, Recipe, RecipeError

_WORTH = 0.2
"""The share of augmenting in the seconds of cores from which on operations are looked at one by one."""


def recipe_lifts(recipe: Any, ceilings: Ceilings, bound: Bound) -> Iterator[Advice]:
    """What twice the cores would give, and a recipe without its most expensive operation.

    Args:
        recipe: As for Loader; of what is no single recipe the operations are not told apart.
        ceilings: What was measured.
        bound: What follows.
    """
    limits = next(one.name for one in bound.resources if one.name != STEP)
    if limits != CORES:
        return
    cores, now = ceilings.cores, bound.images_per_second
    doubled = replace(
        ceilings,
        cores=replace(cores, usable=2 * cores.usable, got=2 * cores.got),
        setting=replace(ceilings.setting, num_threads=2 * ceilings.setting.num_threads),
    )
    factor = find_bound(doubled, temperature=bound.temperature).images_per_second / now
    yield Advice("twice the cores", factor, factor, factor, False, "the cores limit")
    if isinstance(recipe, Recipe) and bound.shares.get("augment", 0.0) >= _WORTH:
        yield from _without_the_dearest(recipe, ceilings, bound)


def _without_the_dearest(recipe: Recipe, ceilings: Ceilings, bound: Bound) -> Iterator[Advice]:
    costs = operation_costs(recipe, ceilings.setting.engine)
    total = sum(costs.values())
    if not total:
        return
    name = max(costs, key=lambda one: costs[one])
    try:
        share = 1 - _left_without(name, recipe, ceilings)
    except RecipeError:  # what comes behind needs it
        return
    stages = tuple(
        replace(one, cpu_seconds=Turns(tuple(run * (1 - share) for run in one.cpu_seconds.runs)))
        if one.name == "augment" and not one.on_device
        else one
        for one in ceilings.stages
    )
    then = find_bound(replace(ceilings, stages=stages), temperature=bound.temperature)
    factor = then.images_per_second / bound.images_per_second
    why = (
        f"augmenting takes {bound.shares['augment']:.0%} of the cores' time, and {name} {share:.0%} of that; "
        "gpu-aug recipe show lists every operation"
    )
    yield Advice(f"a recipe without {name}", factor, factor, factor, False, why, "pixels")


def _left_without(name: str, recipe: Recipe, ceilings: Ceilings) -> float:
    """The share of the time of augmenting that is left without all operations of a name, 0 to 1.

    It is taken with as many images at once, and in as many threads, as a loader takes.

    Raises:
        RecipeError: The others do not work without it.
    """
    engine, threads = ceilings.setting.engine, ceilings.setting.num_threads
    chunk = min(max(ceilings.setting.batch_size // (2 * threads), 4), 32)
    canvas = CenterCrop(recipe.decode_size or USUAL_SIZE)
    behind = recipe.operations[len(recipe.decode_operations) :]
    kept = [one for one in behind if type(one).__name__ != name]
    nothing, left, whole = (Recipe([canvas, *some]) for some in ([], kept, behind))

    def seconds(one: Recipe) -> float:
        with ThreadPoolExecutor(threads) as pool:
            return sum(pool.map(lambda _: seconds_of(engine, one, chunk), range(threads)))

    usual = torch.get_num_threads()
    try:
        before = seconds(nothing)
        return min(max((seconds(left) - before) / max(seconds(whole) - before, 1e-9), 0.0), 1.0)
    finally:
        torch.set_num_threads(usual)  # what a thread of the pool sets, later threads begin with


def operation_costs(recipe: Recipe, engine: str) -> dict[str, float]:
    """Milliseconds per image on one core of each operation after decoding, by its name; dearest of equal names.

    Operations that cannot be timed alone are left out.
    """
    found: dict[str, float] = {}
    for operation in recipe.operations[len(recipe.decode_operations) :]:
        try:
            milliseconds = float(cost(engine, operation, recipe.size or USUAL_SIZE))
        except ValueError:  # it says why there is none
            continue
        name = type(operation).__name__
        found[name] = max(found.get(name, 0.0), milliseconds)
    return found
