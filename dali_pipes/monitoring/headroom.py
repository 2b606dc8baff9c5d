"""Measure the headroom: the speedup of training if its input took no time.

A training step is measured alternately on batches in memory and on fresh batches.
"""

import statistics
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
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
"""A smaller gain is within the noise of clocks and schedulers."""


@dataclass(frozen=True, slots=True)
class StepRate:
    """The speed of a training step, measured in several rounds.

    Attributes:
        steps_per_second: Median of the rounds, in steps per second.
        low: The slowest round, in steps per second.
        high: The fastest round, in steps per second.
        images_per_second: Median of the rounds, in images per second; if samples are clips, in clips per second.
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
    """The largest possible speedup of training by a faster input; printing it gives the verdict.

    Attributes:
        memory: Speed of the training step on batches in memory.
        fresh: Speed of the training step on fresh batches from the loader.
        gain: Upper bound of the speedup if the input took no time: the median over the rounds of the rate in memory
            divided by the rate with fresh batches.
        gain_range: The smallest and the largest of these ratios.
        num_kept: Count of the batches in memory.
    """

    memory: StepRate
    fresh: StepRate
    gain: float
    gain_range: tuple[float, float]
    num_kept: int

    @property
    def nothing_to_gain(self) -> bool:
        """Whether the gain is below 2 %."""
        return self.gain < 1 + NOTHING_TO_GAIN

    @property
    def unclear(self) -> bool:
        """Whether the median shows a gain, but not every round does."""
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
    """Measure the headroom; see `Loader.headroom`.

    Args:
        production: The loader's production; it is not changed.
        steps: The steps of an epoch.
        upcoming: The epoch and the consumed positions after which fresh batches start.
        step: The training step.
        num_steps: Count of steps in one measurement.
        rounds: How often each of the two speeds is measured.
        kept: Count of batches in memory.

    Raises:
        LoaderError: An argument is not allowed, the step changes its batch, or an epoch has no batch.
        BadSampleError: A bad sample ends the run, as it would in a loop over the loader.
    """
    require_positive(steps=num_steps, rounds=rounds, kept=kept)
    if not callable(step):
        raise LoaderError(f"step={step!r} is not allowed; give a function that takes a Batch")
    # A separate recorder and pipeline, so that the statistics of the run do not change.
    setup = production.setup
    apart = replace(setup, fetcher=replace(setup.fetcher, recorder=Recorder()))
    source = _Source(apart, production.with_own_recorder(apart, steps), steps, upcoming)
    try:
        memory = [source.next() for _ in range(kept)]
        source.drain()
        # Warm-up: torch compiles and chooses kernels.
        for batch in islice(cycle(memory), num_steps):
            step(batch)
        measured = [_measure_round(step, num_steps, source, memory) for _ in range(rounds)]
    finally:
        source.close()
    ratios = [in_memory[0] / fresh[0] for in_memory, fresh in measured]
    return Headroom(
        _rate([in_memory for in_memory, _ in measured]),
        _rate([fresh for _, fresh in measured]),
        statistics.median(ratios),
        (min(ratios), max(ratios)),
        kept,
    )


_Rates = tuple[float, float]
"""Steps per second and images per second."""


def _measure_round(
    step: TrainingStep, num_steps: int, source: "_Source", memory: Sequence[Batch]
) -> tuple[_Rates, _Rates]:
    """Return the speeds of the training step on batches in memory and on fresh batches.

    The loader is idle during the first measurement, and works at full speed during the second.
    """
    versions = [_version(batch) for batch in memory]
    in_memory = _measure(step, islice(cycle(memory), num_steps))
    if versions != [_version(batch) for batch in memory]:
        raise LoaderError(
            "step changes its batch in place, so that a batch cannot be given to it again; let it work on a copy, such "
            "as batch.images * 2 in place of batch.images.mul_(2)"
        )
    # Consumes the batches that were made ahead before timing started: they do not show the loader's speed.
    step(source.next())
    for _ in range(source.capacity):
        step(source.next())
    fresh = _measure(step, (source.next() for _ in range(num_steps)))
    source.drain()
    return in_memory, fresh


def _measure(step: TrainingStep, batches: Iterable[Batch]) -> _Rates:
    num_steps = num_images = 0
    _synchronize()
    began = clock()
    for batch in batches:
        num_steps += 1
        num_images += len(batch)
        step(batch)
    _synchronize()
    seconds = max(clock() - began, 1e-9)
    return num_steps / seconds, num_images / seconds


class _Source:
    """Makes fresh batches, epoch after epoch, as a loop does but without changing the ledger or the loader's state."""

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
        self._bad: dict[int, BadRecord] = {}  # bad samples of all epochs, by index
        self._num_started = 0
        self._batches = self._run(*upcoming)

    @property
    def capacity(self) -> int:
        """Count of batches that are made ahead."""
        return self._source.capacity

    def next(self) -> Batch:
        """Wait for the next batch and return it.

        Raises:
            LoaderError: A full epoch has no batch.
        """
        return next(self._batches)

    def drain(self) -> None:
        """Discard the batches in progress, so that the threads become idle."""
        while self._num_started:
            self._take()

    def close(self) -> None:
        """End all threads."""
        self._batches.close()
        self._production.close()

    def _run(self, epoch: int, consumed: Consumed) -> Generator[Batch]:
        while True:
            self._source = self._production.open(self._steps.largest)
            try:
                self._plans = iter(self._steps.plans(epoch, consumed))
                # The rest of a partly consumed epoch may have no batch.
                self._has_batch = total(consumed) > 0
                yield from self._run_epoch()
                if not self._has_batch:
                    raise no_batch(self._setup)
                self._production.keep(self._source)
            finally:
                self._production.stop(self._source)
            epoch, consumed = epoch + 1, 0

    def _run_epoch(self) -> Iterator[Batch]:
        while True:
            while self._num_started <= self.capacity and (plan := next(self._plans, None)):
                self._source.start(plan)
                self._num_started += 1
            if not self._num_started:
                return
            if (batch := self._take()) is not None:
                yield batch

    def _take(self) -> Batch | None:
        """Return the oldest batch; None after the end of a stream."""
        finished, images = self._source.take()
        self._num_started -= 1
        batch = batch_of(finished, images, self._setup, self._judge)
        if batch is None:
            self._plans = iter(())  # a stream of unknown length would have endless plans
        self._has_batch |= batch is not None
        return batch

    def _judge(self, records: Sequence[BadRecord]) -> None:
        """Raise if the bad samples so far would end a loop.

        They are not recorded in the ledger, because loops will read them again.
        """
        self._bad |= {record.index: record for record in records if not record.kept}
        self._ledger.judge(list(self._bad.values()))


def _version(batch: Batch) -> list[int]:
    """Return torch's version counter of each image tensor, which in-place changes increase."""
    return [view._version for view in batch.views]


def _rate(rates: Sequence[_Rates]) -> StepRate:
    steps = [one for one, _ in rates]
    images_per_second = statistics.median(images for _, images in rates)
    return StepRate(statistics.median(steps), min(steps), max(steps), images_per_second)


def _synchronize() -> None:
    """Wait for the GPU, if one is in use."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
