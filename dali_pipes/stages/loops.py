"""The loops of a loader: steps are started ahead, and handed over, counted and told of one by one."""

import logging
from collections.abc import Generator
from contextlib import ExitStack
from dataclasses import dataclass

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
from dali_pipes.stages.endings import end, is_collecting
from dali_pipes.stages.pipeline import BatchSource
from dali_pipes.stages.production import Production
from dali_pipes.steps.epochs import Epochs
from dali_pipes.steps.schedule import Plan, total
from dali_pipes.steps.streams.steps import AnySteps, StreamSteps

_log = logging.getLogger(f"gpu_aug.{__name__}")


@dataclass(slots=True)
class Loops:
    """Runs the loops of a loader.

    Attributes:
        setup: What the loader is made of.
        production: Makes the pipeline of a loop.
        epochs: Counts what the latest loop handed over.
        ledger: Gets the bad samples.
        audit: Gets the hashes of what was handed over.
        meter: Counts batches and the waiting for them.
        metrics: Tells the user's callables of it.
        watch: Tells the other ranks, and of a loop that stands still.
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
        """Hand over what is left of the present epoch.

        Args:
            steps: The steps of an epoch.
            process: Rank and world size.
            number: The number of the loop: only the latest one counts in `epochs`.
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
            pulse.account = source.account
            under_way, is_over = 0, False
            for plan in steps.plans(epoch, consumed):
                source.start(plan)
                under_way += 1
                while under_way > source.capacity:
                    batch = self._hand_over(source, steps, number, pulse)
                    under_way -= 1
                    if batch is None:
                        is_over = True
                        break
                    yield batch
                if is_over:
                    break
            for _ in range(under_way):
                if (batch := self._hand_over(source, steps, number, pulse)) is not None:
                    yield batch
            self.production.keep(source)
        finally:
            try:
                end(ending.close)
            finally:
                if not is_collecting():
                    self._tell_of_end(epoch)

    def _tell_of_end(self, epoch: int) -> None:
        """Tell metrics and log how a loop went."""
        self.metrics.finish()
        if _log.isEnabledFor(logging.INFO):
            stats = self.meter.stats("epoch", epoch)
            _log.info("a loop is over: %s", "; ".join(stats.summary()))

    def _hand_over(
        self, source: BatchSource, steps: AnySteps, number: int, pulse: Pulse
    ) -> Batch | None:
        """Return the next batch; None behind the end of a stream."""
        with self.meter.waiting(source.ready(), source.capacity + 1), pulse.waiting():
            plan, batch, bad = self._take(source, steps, number)
        if batch is not None:
            self.meter.hand_over(plan.step, len(batch), bad)
            pulse.hand_over(len(batch), bad)
            self.metrics.count()
        return batch

    def _take(
        self, source: BatchSource, steps: AnySteps, number: int
    ) -> tuple[Plan, Batch | None, int]:
        """Return the next batch, None behind the end of a stream; its plan, and how many bad samples it met."""
        finished, images = source.take()
        plan, num_bad = finished.plan, len(self.ledger.records)
        batch = batch_of(finished, images, self.setup, self.ledger.commit)
        if number == self.epochs.loop:  # the state is that of the latest loop
            if batch is not None:
                self.audit.count(finished)
                self.epochs.count(plan.consumed)
            if isinstance(steps, StreamSteps):
                steps.note(plan)
        return plan, batch, len(self.ledger.records) - num_bad
