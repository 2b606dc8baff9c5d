"""The loops of a loader: start steps ahead, hand batches over one by one, count them and report."""

import logging
from collections.abc import Generator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice

from dali_pipes.arguments.process_rank import Process
from dali_pipes.arguments.setup import Setup
from dali_pipes.batch import Batch
from dali_pipes.monitoring.loop import LoopMeter
from dali_pipes.monitoring.metrics import Metrics
from dali_pipes.monitoring.ranks.pulse import Pulse
from dali_pipes.monitoring.ranks.watch import Watch
from dali_pipes.runs.audit import Audit
from dali_pipes.runs.bad_samples import Ledger
from dali_pipes.stages.assemble import batch_of
from dali_pipes.stages.data import Finished
from dali_pipes.stages.endings import end, is_collecting
from dali_pipes.stages.pipeline import BatchSource
from dali_pipes.stages.production import Production
from dali_pipes.steps.epochs import Epochs
from dali_pipes.steps.schedule import total
from dali_pipes.steps.streams.steps import AnySteps, StreamSteps

_log = logging.getLogger(f"gpu_aug.{__name__}")


@dataclass(slots=True)
class Loops:
    """Runs the loops of a loader.

    Attributes:
        setup: The configuration of the loader.
        production: Opens the batch source of a loop.
        epochs: Counts the batches of the latest loop.
        ledger: Records the bad samples.
        audit: Records hashes of the batches.
        meter: Counts batches and the time that the training loop waits for them.
        metrics: Reports to the user's callables.
        watch: Reports to the other ranks, and warns if a loop stalls.
    """

    setup: Setup
    production: Production
    epochs: Epochs
    ledger: Ledger
    audit: Audit
    meter: LoopMeter
    metrics: Metrics
    watch: Watch

    def run(self, steps: AnySteps, process: Process, number: int) -> Generator[Batch]:
        """Yield the remaining batches of the current epoch.

        Args:
            steps: The steps of an epoch.
            process: Rank and world size.
            number: Index of the loop: only the batches of the latest loop count in `epochs`.
        """
        epoch, consumed = self.epochs.epoch, self.epochs.consumed
        self.meter.begin()
        self.metrics.begin(process.rank)
        _log.info("epoch %d begins after %s of its samples", epoch, f"{total(consumed):,}")
        ending = ExitStack()
        try:
            pulse = self.watch.begin(process, epoch, ending)
            source = self.production.open(steps.largest)
            ending.callback(self.production.stop, source)
            ending.callback(self.meter.end)
            pulse.account = source.describe_remote_threads
            num_started, plans = 0, steps.plans(epoch, consumed)
            while True:
                # One more than the capacity, for the step that is handed over. The capacity may change with the size of steps.
                for plan in islice(plans, max(0, source.capacity + 1 - num_started)):
                    source.start(plan)
                    num_started += 1
                if not num_started:
                    break
                batch = self._hand_over(source, steps, number, pulse)
                num_started -= 1
                if batch is None:  # after the end of a stream
                    plans = iter(())
                else:
                    yield batch
            self.production.keep(source)
        finally:
            try:
                end(ending.close)
            finally:
                if not is_collecting():
                    self._report_end(epoch)

    def _report_end(self, epoch: int) -> None:
        """Report the end of a loop to the metrics, and log a summary of the loop."""
        self.metrics.finish()
        if _log.isEnabledFor(logging.INFO):
            stats = self.meter.stats("epoch", epoch)
            _log.info("a loop is over: %s", "; ".join(stats.summary()))

    def _hand_over(
        self, source: BatchSource, steps: AnySteps, number: int, pulse: Pulse
    ) -> Batch | None:
        """Return the next batch; None after the end of a stream."""
        num_bad = len(self.ledger.records)
        with self.meter.waiting(source.ready(), source.capacity + 1), pulse.waiting():
            finished, images = source.take()
            batch = batch_of(finished, images, self.setup, self.ledger.commit)
            self._count(finished, batch, steps, number)
        if batch is not None:
            num_bad = len(self.ledger.records) - num_bad
            self.meter.hand_over(finished.plan.step, len(batch), num_bad)
            pulse.hand_over(len(batch), num_bad)
            self.metrics.count()
        return batch

    def _count(self, finished: Finished, batch: Batch | None, steps: AnySteps, number: int) -> None:
        """Count a step in the loader's state and in the audit, if it belongs to the latest loop."""
        if number != self.epochs.loop:
            return
        if batch is not None:
            self.audit.count(finished)
            self.epochs.count(finished.plan.consumed)
        if isinstance(steps, StreamSteps):
            steps.record_position(finished.plan)
