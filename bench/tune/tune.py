"""Find the bottleneck of a loader on this machine, and faster settings."""

import math
import warnings
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any

from bench.output.errors import BenchError, require_above_zero
from bench.timing import Measurement
from bench.tune.candidates import Settings, Situation, find_candidates
from bench.tune.limits import (
    LOADING,
    TRAINING_STEP,
    Limit,
    Stages,
    can_repeat,
    further_help,
    help_of_repeated,
    measure_repeated,
    measure_stages,
)
from bench.tune.result import Tuning
from bench.tune.search import Found, Search
from bench.tune.trial import Pace, Trial, reason_of
from dali_pipes import Execution, Loader
from dali_pipes.arguments.names import with_settings
from dali_pipes.steps.variants import AnyRecipe
from dali_pipes.video.source import find_clips
from gpu_aug import Schedule
from gpu_aug.compiled.clock import clock
from readers import Dataset

_LEAST_SECONDS = 1.0
_TURNS_PER_RUN = 100  # for a run of 60 s: a turn takes 0.6 s, and a trial of three rounds about 5 s
_TURN_SECONDS_MIN = 0.25  # a shorter turn has too few batches

# Trials must not write to the files of a run or report to its monitoring.
_OF_THE_RUN = "monitoring"

Progress = Callable[[str, float], object]
"""Called with a line of text, and the share of the time that has passed, 0 to 1."""


@dataclass(frozen=True)
class _Task:
    """The data, the recipe and the settings to tune."""

    dataset: Dataset
    recipe: AnyRecipe
    settings: Settings
    source: str | None
    step_seconds: float
    is_clips: bool

    def loader(
        self, more: Settings, dataset: Dataset | None = None, recipe: AnyRecipe | None = None
    ) -> Loader:
        """Return a loader with further settings, optionally over a part of the data or with another recipe."""
        kept = {name: value for name, value in self.settings.items() if name != _OF_THE_RUN}
        with warnings.catch_warnings():
            # The loader with the user's settings has given the warnings already.
            if more or dataset or recipe:
                warnings.simplefilter("ignore")
            return Loader(
                dataset or self.dataset, recipe or self.recipe, **with_settings(kept, more)
            )

    def measure_stages(self, trial: Trial, more: Settings, pace: Pace) -> Stages:
        """Return the measurements of a trial's loader, which has these further settings, and of its stages."""

        def make(stage: Settings, recipe: AnyRecipe) -> Loader:
            return self.loader({**more, **stage}, recipe=recipe)

        return measure_stages(trial, self.dataset, self.recipe, make, pace)

    def trial(self, more: Settings, number: int) -> Trial:
        """Start and return the trial with index `number`: a loader with further settings.

        Each trial reads the samples of a different epoch, so that no trial profits from the page cache of another one.
        Epochs of a schedule have different recipes, so there all trials use the same epoch.
        """
        epoch = 0 if isinstance(self.recipe, Schedule) else number
        return Trial(self.loader(more), step_seconds=self.step_seconds, epoch=epoch)


def tune(
    dataset: Dataset,
    recipe: AnyRecipe,
    *,
    batch_size: int,
    source: str | None = None,
    step_ms: float | None = None,
    images_per_second: float | None = None,
    seconds: float = 60.0,
    on_progress: Progress = lambda _text, _share: None,
    **settings: Any,
) -> Tuning:
    """Try settings of a loader in short trials, alternately with the best settings so far, and find its bottleneck.

    The bottleneck is measured twice: before the search with the user's settings, to choose what to try; and after it
    with the recommended settings. `Tuning.limit` and the further help are about the latter.

    No setting changes the samples, their order or their draws. The user's settings are not changed.

    Args:
        dataset: The dataset, also `Clips`.
        recipe: The recipe, as for Loader.
        batch_size: Samples per batch, as for Loader.
        source: Path, pattern or URL of the data, for advice about storage.
        step_ms: Length of a training step in milliseconds. The consumer of a trial sleeps that long after each batch.
        images_per_second: Speed of the training, instead of `step_ms`; in clips if samples are clips.
        seconds: Approximate total duration in seconds.
        on_progress: Called with a description of the present work, and the share of the time that has passed, 0 to 1.
        settings: Further arguments of Loader.

    Returns:
        The result; after Ctrl-C, the result so far.

    Raises:
        BenchError: An argument is not allowed.
        dali_pipes.LoaderError: The loader is invalid; the errors of gpu_aug are raised, too.
        dali_pipes.BadSampleError: A sample is bad, and the settings do not say how to handle it.
        KeyboardInterrupt: Ctrl-C before anything was measured.

    Example:
        >>> from bench.tune import tune
        >>> photos, recipe = open_dataset("photos/"), Recipe.imagenet_train(size=64)
        >>> found = tune(photos, recipe, batch_size=8, seconds=2)
        >>> loader = Loader(photos, recipe, **found.chosen)
    """
    if not hasattr(dataset, "fetch"):
        raise BenchError(
            "tune reads samples at random, and a stream is read from front to back: make shards with gpu-aug pack and "
            "tune on these"
        )
    if not (seconds >= _LEAST_SECONDS and math.isfinite(seconds)):
        raise BenchError(f"seconds must be {_LEAST_SECONDS:g} or more, got {seconds}: 60 is usual")
    task = _Task(
        dataset,
        recipe,
        {"batch_size": batch_size, **settings},
        source,
        _step_seconds(step_ms, images_per_second, batch_size),
        is_clips=find_clips(dataset) is not None,
    )
    began = clock()
    turn_seconds = max(seconds / _TURNS_PER_RUN, _TURN_SECONDS_MIN)

    def progress(text: str) -> None:
        on_progress(text, min((clock() - began) / seconds, 1.0))

    progress("starting the loader")
    with closing(task.trial({}, 0)) as base:
        base.free_turn(_TURN_SECONDS_MIN)  # warms up
        asked = clock()
        base.free_turn(turn_seconds)  # measures how long a turn takes
        base.record.clear()
        pace = Pace(turn_seconds, clock() - asked, began + seconds, progress)
        given = task.measure_stages(base, {}, pace)
        tuning = Tuning(
            settings=task.settings,
            unit="clips" if task.is_clips else "images",
            step_rate=base.loader.steps.largest / task.step_seconds if task.step_seconds else None,
            given=given,
            found=Found(),
            own=Measurement(()),
            not_measured=dict(given.failed),
        )
        try:
            if given.limit.stage != TRAINING_STEP:
                _improve(task, base, pace, tuning)
        except KeyboardInterrupt:
            tuning.is_interrupted = True
        tuning.own = Measurement(tuple(turn for turn, _ in base.record))
        tuning.help = _help(task, base.loader.device.type, tuning)
    tuning.seconds = clock() - began
    return tuning


def _step_seconds(step_ms: float | None, images_per_second: float | None, batch_size: int) -> float:
    if step_ms is not None and images_per_second is not None:
        raise BenchError(
            f"step_ms and images_per_second say the same, got {step_ms} and {images_per_second}: leave one of them out"
        )
    require_above_zero(step_ms=step_ms, images_per_second=images_per_second)
    if images_per_second is not None:
        return max(batch_size, 1) / images_per_second
    return (step_ms or 0.0) / 1000


def _improve(task: _Task, base: Trial, pace: Pace, tuning: Tuning) -> None:
    """Try settings, and measure the bottleneck with the best ones."""
    if can_repeat(tuning.limit, base.loader, task.dataset, task.is_clips):
        try:
            tuning.repeated = measure_repeated(
                base,
                task.dataset,
                lambda part: task.loader({}, dataset=part),
                rate=tuning.given.measured[LOADING].median,
                pace=pace,
            )
        except Exception as error:  # noqa: BLE001 - mixtures, for one, have no part
            tuning.not_measured["data that were read before"] = reason_of(error)
    numbers = count(1)

    def measure_again(best: Trial) -> None:
        tuning.recommended = task.measure_stages(best, tuning.changes, pace)
        tuning.not_measured |= tuning.recommended.failed

    search = Search(
        lambda settings: task.trial(settings, next(numbers)),
        pace,
        has_step=task.step_seconds > 0,
        at_end=measure_again,
    )
    search.run(base, find_candidates(_situation(task, base, tuning.limit)), tuning.found)


def _help(task: _Task, device: str, tuning: Tuning) -> list[str]:
    """Return advice, apart from settings, against the bottleneck that remains with the recommended settings."""
    is_packed = getattr(task.dataset, "block_size", 1) > 1
    further = further_help(tuning.limit, device=device, clips=task.is_clips, is_packed=is_packed)
    # Repeated samples were measured with the user's settings; with another limit or decoder, the gain would differ.
    is_same = tuning.limit.stage == tuning.given.limit.stage and "decoder" not in tuning.changes
    if tuning.repeated is None or not is_same:
        return further
    total_bytes = tuning.given.bytes_per_sample * len(task.dataset)
    return [*help_of_repeated(tuning.repeated, tuning.limit, task.source, total_bytes), *further]


def _situation(task: _Task, base: Trial, limit: Limit) -> Situation:
    loader = base.loader
    num_helpers = loader._setup.helpers.count
    # "auto" and None leave the choice to the loader, so tuning may try values.
    execution = task.settings.get("execution", Execution())
    fixed = {
        name
        for name, value in {**task.settings, **asdict(execution)}.items()
        if value is not None and not (isinstance(value, str) and value == "auto")
    }
    return Situation(
        num_threads=loader.stats("run").num_threads,
        # One of the batches ahead is the current one; each helper process makes `prefetch` of the others.
        prefetch=max((base.num_ahead - 1) // max(num_helpers, 1), 1),
        num_helpers=num_helpers,
        device=loader.device.type,
        decoder=loader.decoder,
        engine=loader.engine,
        fixed=frozenset(fixed),
        shares=limit.shares,
    )
