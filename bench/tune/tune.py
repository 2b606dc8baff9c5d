"""What limits a loader on this machine, and which settings suit it."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from bench.output.errors import BenchError
from bench.tune.bound import Bound, Wanted, find_bound
from bench.tune.candidates import DEFAULTS, Ground, candidates, options
from bench.tune.ceilings import Ceilings
from bench.tune.ceilings_measure import measure_ceilings
from bench.tune.outcome import outcome_of
from bench.tune.sweep import Interrupted, Search, Sweep, sweep
from bench.tune.trials import Trials
from bench.tune.tuning import Tuning
from dali_pipes import Loader, available_decoders
from dali_pipes.stats.stats import Stats
from dali_pipes.variants import AnyRecipe
from dali_pipes.video.source import find_clips
from gpu_aug import Schedule
from readers import Dataset
from readers.cores import usable_cores

_CEILINGS = 0.35
"""The part of the time in which ceilings are measured."""

_LEAST_SECONDS = 1.0
_WAITS = 2.0
"""Storage that gives less than so many times what the cores can take may make threads wait."""

_PREFETCH = 2  # as Loader's default

_TOLD = ("ledger", "audit", "metrics", "heartbeat")
"""Arguments that say who is told what a loader does."""

Tell = Callable[[str, float], None]
"""Gets a line of text, and how much of the time has gone by, from 0 to 1."""


@dataclass(frozen=True)
class _Task:
    dataset: Dataset
    recipe: AnyRecipe
    source: str | None
    wanted: float | None
    seconds: float
    settings: Mapping[str, Any]
    tell: Tell

    @property
    def batch_size(self) -> int:
        return int(self.settings["batch_size"])

    def loader(self, more: Mapping[str, Any]) -> Loader:
        """Make a loader with these settings as well, of which nobody outside is told."""
        kept = {name: value for name, value in self.settings.items() if name not in _TOLD}
        return Loader(self.dataset, self.recipe, **{**kept, **more})


def tune(
    dataset: Dataset,
    recipe: AnyRecipe,
    *,
    batch_size: int,
    source: str | None = None,
    step_ms: float | None = None,
    images_per_second: float | None = None,
    seconds: float = 60.0,
    on_progress: Tell = lambda _, __: None,
    **settings: Any,
) -> Tuning:
    """Measure what each stage of a loader gives alone, try what can be set, and say what to change.

    Settings that alter pixels or the order of the samples are tried and named, and never chosen. Where the training
    says how fast it asks for batches, the cheapest settings with which it does not wait are chosen, else the fastest.

    Args:
        dataset: What the loader reads, also `Clips`.
        recipe: As for Loader.
        batch_size: As for Loader.
        source: Path, pattern or URL of the data, where it is known: it tells where they lie.
        step_ms: How long a training step takes, in milliseconds.
        images_per_second: What the training asks for, instead of `step_ms`; clips where samples are clips.
        seconds: About how long all of it may take; a turn that has begun is finished.
        on_progress: Is told what is done now, and how much of the time has gone by.
        settings: Arguments of Loader that are given; they are left as they are.

    Returns:
        What was found; what there is so far where somebody interrupts the search with Ctrl-C.

    Raises:
        BenchError: An argument that cannot work.
        dali_pipes.LoaderError: As Loader; so are gpu_aug's errors.
        dali_pipes.BadSampleError: A sample is bad and settings do not say what to do about it.

    Example:
        >>> from bench.tune import tune
        >>> found = tune(open_dataset("photos/"), Recipe.imagenet_train(size=64), batch_size=8, seconds=2)
        >>> loader = Loader(open_dataset("photos/"), Recipe.imagenet_train(size=64), **found.settings)
    """
    _require_at_random(dataset)
    if not (seconds >= _LEAST_SECONDS and math.isfinite(seconds)):
        raise BenchError(f"seconds must be {_LEAST_SECONDS:g} or more, got {seconds}: 60 is usual")
    wanted = _wanted(step_ms, images_per_second, batch_size)
    given = {"batch_size": batch_size, **settings}
    task = _Task(dataset, recipe, source, wanted.images_per_second, seconds, given, on_progress)
    began = time.monotonic()
    with task.loader({}) as loader:  # what cannot work is said at once
        ground = _ground(task, loader)
    measured = None if ground.clips else _ceilings(task, wanted)
    if measured is not None:
        ground = _with_facts(ground, *measured)
    left = max(seconds - (time.monotonic() - began), _LEAST_SECONDS)
    found, stats, interrupted = _sweep(task, ground, left)
    return outcome_of(
        found,
        measured,
        stats,
        recipe=recipe,
        settings=given,
        wanted=wanted.images_per_second,
        unit="clips" if ground.clips else "images",
        seconds=time.monotonic() - began,
        interrupted=interrupted,
    )


def _ceilings(task: _Task, wanted: Wanted) -> tuple[Ceilings, Bound]:
    ceilings = measure_ceilings(
        task.dataset,
        task.recipe,
        source=task.source,
        seconds=_CEILINGS * task.seconds,
        on_progress=lambda text, done: task.tell(f"alone: {text}", _CEILINGS * done),
        **task.settings,
    )
    return ceilings, find_bound(ceilings, wanted)


def _require_at_random(dataset: Any) -> None:
    if not hasattr(dataset, "fetch"):
        raise BenchError(
            "tune takes samples at random, and a stream is read from front to back: make shards of it with gpu-aug pack "
            "and tune on these"
        )


def _wanted(step_ms: float | None, images_per_second: float | None, batch_size: int) -> Wanted:
    if step_ms is not None and images_per_second is not None:
        raise BenchError(
            f"step_ms and images_per_second say the same, got {step_ms} and {images_per_second}: leave one of them out"
        )
    for name, value in (("step_ms", step_ms), ("images_per_second", images_per_second)):
        if value is not None and not (value > 0 and math.isfinite(value)):
            raise BenchError(
                f"{name} must be greater than 0, got {value}: leave it out for the fastest loader"
            )
    if step_ms is not None and batch_size > 0:
        return Wanted.of_step(step_ms, batch_size)
    return Wanted(images_per_second)


def _ground(task: _Task, loader: Loader) -> Ground:
    """What can be tried, as far as it is known before anything is measured."""
    decoders = [name for name, missing in available_decoders().items() if not missing]
    engines = ["fused", "kornia"]
    if loader.device.type == "cpu":
        engines.append("albumentations")
    threads = int(task.settings.get("num_threads") or usable_cores())
    unset = {"device", "decoder", "engine"}
    fixed = {
        name
        for name, value in task.settings.items()
        if not (name in unset and value == "auto") and value is not None
    }
    clips = find_clips(task.dataset) is not None
    return Ground(
        threads,
        loader.device.type,
        loader.decoder,
        loader.engine,
        decoders,
        engines,
        frozenset(fixed - {"batch_size"}),
        blocks=not clips and getattr(task.dataset, "block_size", 1) > 1,
        clips=clips,
    )


def _with_facts(ground: Ground, ceilings: Ceilings, bound: Bound) -> Ground:
    """The same, knowing what the data are like and what storage gives."""
    waits = "storage" in bound.headroom and bound.headroom["storage"] < _WAITS
    jpegs = any("JPEG" in kind for kind in ceilings.facts.kinds)
    enough = bound.verdict == "enough"
    return replace(ground, waits=waits, jpegs=jpegs, blocks=ground.blocks and waits, enough=enough)


def _sweep(task: _Task, ground: Ground, seconds: float) -> tuple[Sweep, Stats | None, bool]:
    """Search; also what the loader with the defaults did, and whether somebody ended it."""
    step = 0.0 if task.wanted is None else task.batch_size / task.wanted
    prefetch = int(task.settings.get("prefetch", _PREFETCH))
    begun = 1 - seconds / task.seconds

    def tell(text: str, done: float) -> None:
        task.tell(text, begun + (1 - begun) * done)

    # Candidates that read other samples do not find them in a cache; those of a schedule must have one recipe.
    apart = ground.waits and not isinstance(task.recipe, Schedule)
    with Trials(task.loader, step_seconds=step, prefetch=prefetch, apart=apart) as trials:
        search = Search(trials, seconds, task.wanted, ground.num_threads, prefetch, tell)
        try:
            found = sweep(search, candidates(ground), options(ground))
        except Interrupted as interrupted:
            return interrupted.found, trials.stats.get(DEFAULTS), True
        return found, trials.stats.get(DEFAULTS), False
