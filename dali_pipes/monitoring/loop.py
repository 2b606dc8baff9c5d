"""Count the batches of a training loop, the time that it waits for them, and the stages that it waits for."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

from dali_pipes.monitoring.counts import Counts, LoopCounts, Stage, sums_since
from dali_pipes.monitoring.observer import BatchEvent
from dali_pipes.monitoring.ranges import open_range
from dali_pipes.monitoring.recorder import Busy, Recorder
from dali_pipes.monitoring.stats import Stats, make_stats
from gpu_aug.compiled.clock import clock

IDLE = "idle"
"""Key in `late` for the share of threads that had no work."""

Scope = Literal["epoch", "run"]


class LoopMeter:
    """Counts what a loader hands over to its training loop.

    Args:
        recorder: Records the work of the stages.
        num_threads: Count of threads that work on the stages.
    """

    def __init__(self, recorder: Recorder, num_threads: int) -> None:
        self.recorder, self._num_threads = recorder, num_threads
        self._sums = LoopCounts()
        self._epoch_began = LoopCounts()
        self._epoch_counts = Counts()
        self._began: float | None = None  # start time of the loop; None once it has its first batch
        self._asked = self._latest = 0.0
        self._waited = LoopCounts()
        self._number = 0  # index of the loop
        self._queue = 0, 0  # count of finished batches, and the largest count that is made ahead

    def begin(self) -> None:
        """Start a loop."""
        self._number += 1
        self._epoch_began = sums_since(LoopCounts(), self._sums)
        self._epoch_counts = self.recorder.totals()
        self._began = clock()

    @contextmanager
    def waiting(self, ready: int, capacity: int) -> Iterator[None]:
        """Measure a block in which the loop waits for a batch; the time counts once a batch is handed over.

        Args:
            ready: Count of finished batches.
            capacity: Largest count of batches that are made ahead.
        """
        self.recorder.set_loop_thread()
        self._queue = ready, capacity
        before, self._asked, opened = self.recorder.busy(), clock(), open_range("wait")
        try:
            yield
        finally:
            if opened is not None:
                opened.close()
        seconds = max(0.0, clock() - self._asked)
        late = self._late(seconds, before, self.recorder.busy())
        self._waited = LoopCounts(
            asked=1, depths=ready, empty=int(not ready), wait_seconds=seconds, late=late
        )

    def hand_over(self, step: int, samples: int, bad_samples: int) -> None:
        """Count a batch and report it to observers."""
        now, sums = clock(), self._sums
        if self._began is not None:
            sums.start_seconds += max(0.0, now - self._began)
            sums.first_samples += samples
            self._began = None
        else:
            sums.seconds += max(0.0, now - self._latest)
            sums.add(self._waited)
        self._latest = now
        sums.steps += 1
        sums.samples += samples
        sums.bad_samples += bad_samples
        for observer in self.recorder.observers:
            asked = min(self._asked, now)
            observer.on_batch(BatchEvent(step, samples, self._queue[0], asked, now))

    def end(self) -> None:
        """Report the end of the loop to observers."""
        for observer in self.recorder.observers:
            observer.on_loop_end(clock())

    def stats(self, scope: Scope, epoch: int) -> Stats:
        """Return the statistics of the present loop, or of the full run."""
        is_epoch = scope == "epoch"
        loop = sums_since(self._epoch_began if is_epoch else LoopCounts(), self._sums)
        counts = self.recorder.totals()
        if is_epoch:
            counts = sums_since(self._epoch_counts, counts)
        since = self._number if is_epoch else 0
        return make_stats(epoch, (loop, counts), self._queue, self._num_threads, since)

    def _late(self, seconds: float, before: Busy, after: Busy) -> dict[str, float]:
        """Divide the seconds that the loop waited among the stages that were at work meanwhile.

        The work of the loop's own thread counts first; the remaining time is divided by the work of the other threads.
        """
        own = _between(before.training_thread_seconds, after.training_thread_seconds)
        others = {
            stage: spent - own[stage]
            for stage, spent in _between(before.seconds, after.seconds).items()
        }
        rest = max(0.0, seconds - sum(own.values()))
        available = after.helper_seconds - before.helper_seconds or self._num_threads * rest
        working = sum(others.values())
        total = max(available, working)
        if not total:
            return {stage: spent for stage, spent in own.items() if spent}
        late: dict[str, float] = {IDLE: rest * (total - working) / total}
        for stage, spent in others.items():
            late[stage] = own[stage] + rest * spent / total
        return {name: spent for name, spent in late.items() if spent > 0}


def _between(before: Mapping[Stage, float], after: Mapping[Stage, float]) -> dict[Stage, float]:
    return {stage: max(0.0, after[stage] - before[stage]) for stage in after}
