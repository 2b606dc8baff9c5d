"""What a faster input could bring at most: a training step on batches in memory, and on fresh ones, in turns."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from dali_pipes.arguments.setup import Setup
from dali_pipes.arguments.values import require_positive
from dali_pipes.batch import Batch
from dali_pipes.errors import LoaderError
from dali_pipes.monitoring.recorder import Recorder
from dali_pipes.runs.bad_samples import BadRecord, Ledger
from dali_pipes.stages.assemble import batch_of, no_batch
from dali_pipes.stages.production import Production
from dali_pipes.steps.schedule import Consumed, total
from dali_pipes.steps.streams.steps import AnySteps
from gpu_aug.compiled.clock import clock
from readers.plural import counted

TrainingStep = Callable[[Batch], Any]

NOTHING_TO_GAIN = 0.02
"""A gain of less than this share is none: it is within what clocks and schedulers do."""


@dataclass(frozen=True, slots=True)
class StepRate:
    """How fast a training step was.

    Attributes:
        steps_per_second: The median of the stretches.
        low: The slowest stretch, in steps per second.
        high: The fastest one.
        images_per_second: The median of the stretches; clips, where samples are clips.
    """

    steps_per_second: float
    low: float
    high: float
    images_per_second: float

    def __str__(self) -> str:
        return (
            f"{self.steps_per_second:,.4g} steps/s ({self.low:,.4g} to {self.high:,.4g}), "
            f"{self.images_per_second:,.0f} images/s"
        )


@dataclass(frozen=True, slots=True)
class Headroom:
    """What a faster input could bring at most; printing it gives the verdict.

    Attributes:
        memory: The step on batches that were in memory.
        fresh: The step on batches fresh from the loader.
        gain: How many times as fast training would be with an input that takes no time, at most: the median over the
            rounds of the rate in memory over the fresh one beside it.
        gain_range: The smallest and the largest of these.
        num_kept: Batches that were repeated.
    """

    memory: StepRate
    fresh: StepRate
    gain: float
    gain_range: tuple[float, float]
    num_kept: int

    @property
    def nothing_to_gain(self) -> bool:
        """Whether the difference is below 2 %."""
        return self.gain < 1 + NOTHING_TO_GAIN

    @property
    def unclear(self) -> bool:
        """Whether there seems to be something to gain, though not in every round."""
        return not self.nothing_to_gain and self.gain_range[0] <= 1

    def __repr__(self) -> str:
        low, high = self.gain_range
        gain = f"a faster input would make training at most {self.gain:.2f} times as fast ({low:.2f} to {high:.2f})"
        if self.nothing_to_gain:
            gain = f"nothing to gain: {gain}"
        elif self.unclear:
            gain = f"not clear, for the rounds differ: {gain}"
        return (
            f"{gain}; {self.fresh} on batches fresh from the loader, {self.memory} on the same "
            f"{counted(self.num_kept, 'batch')} from memory again and again"
        )


def measure_headroom(
    production: Production,
    steps: AnySteps,
    upcoming: tuple[int, Consumed],
    step: TrainingStep,
    *,
    num_steps: int = 20,
    rounds: int = 5,
    kept: int = 4,
) -> Headroom:
    """Measure; see `Loader.headroom`.

    Args:
        production: The loader's own, which is not changed.
        steps: The steps of an epoch.
        upcoming: The epoch and the consumed positions from which fresh batches come.
        step: The training step.
        num_steps: Steps of a stretch.
        rounds: How often both are measured.
        kept: Batches that are kept in memory.

    Raises:
        LoaderError: An argument that is not allowed, a step that changes its batch, or an epoch without a batch.
        BadSampleError: As in a loop.
    """
    require_positive(steps=num_steps, rounds=rounds, kept=kept)
    if not callable(step):
        raise LoaderError(f"step={step!r} is not allowed; give a function that takes a Batch")
    # Statistics and pipeline of its own: those of the run do not know of it.
    setup = production.setup
    apart = replace(setup, fetcher=replace(setup.fetcher, recorder=Recorder()))
    source = _Source(apart, production.beside(apart, steps), steps, upcoming)
    try:
        memory = [source.next() for _ in range(kept)]
        source.drain()
        stretches = _Stretches(step, num_steps)
        stretches.run(
            lambda number: memory[number % kept]
        )  # what is done once: compiling, choosing kernels
        found = [_one_round(stretches, source, memory) for _ in range(rounds)]
    finally:
        source.end()
    ratios = [in_memory[0] / fresh[0] for in_memory, fresh in found]
    return Headroom(
        _rate([in_memory for in_memory, _ in found]),
        _rate([fresh for _, fresh in found]),
        statistics.median(ratios),
        (min(ratios), max(ratios)),
        kept,
    )


_Measured = tuple[float, float]
"""Steps per second, images per second."""


def _one_round(
    stretches: "_Stretches", source: "_Source", memory: Sequence[Batch]
) -> tuple[_Measured, _Measured]:
    """Measure a stretch from memory, in which the loader rests, and one of fresh batches in full flow."""
    versions = [_version(batch) for batch in memory]
    in_memory = stretches.run(lambda number: memory[number % len(memory)])
    if versions != [_version(batch) for batch in memory]:
        raise LoaderError(
            "step changes its batch in place, so that a batch cannot be given to it again; let it work on a copy, such "
            "as batch.images * 2 in place of batch.images.mul_(2)"
        )
    for _ in range(source.capacity + 1):  # what was made ahead while nothing was timed
        stretches.step(source.next())
    fresh = stretches.run(lambda _: source.next())
    source.drain()
    return in_memory, fresh


class _Stretches:
    """Runs a training step some times, and takes the time."""

    def __init__(self, step: TrainingStep, num_steps: int) -> None:
        self.step, self._num_steps = step, num_steps

    def run(self, batch_of: Callable[[int], Batch]) -> _Measured:
        """Return steps and images per second of a stretch."""
        num_images = 0
        _synchronize()
        began = clock()
        for number in range(self._num_steps):
            batch = batch_of(number)
            num_images += len(batch)
            self.step(batch)
        _synchronize()
        seconds = max(clock() - began, 1e-9)
        return self._num_steps / seconds, num_images / seconds


class _Source:
    """Batches as loops make them, epoch after epoch, of which nobody takes note."""

    def __init__(
        self,
        setup: Setup,
        production: Production,
        steps: AnySteps,
        upcoming: tuple[int, Consumed],
    ) -> None:
        self._setup, self._steps, self._production = setup, steps, production
        options = setup.options
        budget = options.bad_sample_limit(len(setup.fetcher.order))
        self._ledger = Ledger(options.on_bad_sample, budget, None, 0)
        self._bad: dict[int, BadRecord] = {}  # by index, of all epochs
        self._begin(*upcoming)

    @property
    def capacity(self) -> int:
        """Batches that are made ahead."""
        return self._batches.capacity

    def next(self) -> Batch:
        """Wait for the next batch.

        Raises:
            LoaderError: A whole epoch has none.
        """
        while True:
            while self._under_way <= self._batches.capacity and self._submit():
                pass
            if self._under_way and (batch := self._take()) is not None:
                return batch
            if not self._under_way:
                if self._is_whole and not self._has_given:
                    raise no_batch(self._setup)
                self._production.keep(self._batches)
                self.close()
                self._begin(self._epoch + 1, 0)

    def drain(self) -> None:
        """Drop what is under way, so that the threads rest."""
        while self._under_way:
            self._take()

    def close(self) -> None:
        """End the threads."""
        self._production.stop(self._batches)

    def end(self) -> None:
        """End everything."""
        self.close()
        self._production.close()

    def _begin(self, epoch: int, consumed: Consumed) -> None:
        self._epoch, self._plans = epoch, iter(self._steps.plans(epoch, consumed))
        self._batches = self._production.open(self._steps.largest)
        self._under_way = 0
        self._is_whole, self._has_given = total(consumed) == 0, False

    def _submit(self) -> bool:
        """Start on the next step of the epoch, if there is one."""
        plan = next(self._plans, None)
        if plan is not None:
            self._batches.start(plan)
            self._under_way += 1
        return plan is not None

    def _take(self) -> Batch | None:
        """The oldest batch; None behind the end of a stream."""
        finished, images = self._batches.take()
        self._under_way -= 1
        batch = batch_of(finished, images, self._setup, self._judge)
        if batch is None:
            self._plans = iter(())  # a stream whose length is not known has plans without end
        self._has_given |= batch is not None
        return batch

    def _judge(self, records: Sequence[BadRecord]) -> None:
        """End where a loop would, by the bad samples of all epochs, which are told to nobody: loops meet them again."""
        self._bad |= {record.index: record for record in records if not record.kept}
        self._ledger.judge(list(self._bad.values()))


def _version(batch: Batch) -> list[int]:
    """How often each image tensor was changed in place."""
    return [view._version for view in batch.views]


def _rate(measured: Sequence[_Measured]) -> StepRate:
    steps = [one for one, _ in measured]
    return StepRate(
        statistics.median(steps),
        min(steps),
        max(steps),
        statistics.median([images for _, images in measured]),
    )


def _synchronize() -> None:
    """Wait for what the GPU has to do, where one is in use."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
