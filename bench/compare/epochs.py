"""The batches of a loader, counted and timed while they come."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from bench.compare.contestant import STAGES, stage_seconds
from bench.compare.timer import Rate
from dali_pipes import Batch, Loader
from gpu_aug.compiled.clock import clock

_STRETCH_SECONDS = 1.0


@dataclass
class Tally:
    """Counts of what was delivered so far."""

    images: int = 0
    steps: int = 0
    wait_seconds: float = 0.0
    stage_seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    rates: list[float] = field(default_factory=list)
    began: float = field(default_factory=clock)
    seconds: float = 0.0
    _stretch_images: int = 0
    _stretch_began: float | None = None

    def add(self, num_images: int, wait_seconds: float) -> None:
        """Count a batch."""
        now = clock()
        self.images += num_images
        self.steps += 1
        self.wait_seconds += wait_seconds
        self.seconds = now - self.began
        if self._stretch_began is None:  # the first batch pays for the start
            self._stretch_began = now
            return
        self._stretch_images += num_images
        if now - self._stretch_began >= _STRETCH_SECONDS:
            self.rates.append(self._stretch_images / (now - self._stretch_began))
            self._stretch_images, self._stretch_began = 0, now

    @property
    def rate(self) -> Rate:
        """Images per second in stretches of a second after the first batch.

        A run that is too short for one goes by all of its time: batches that were made beside the first one would
        count as if they took none.
        """
        if self.rates:
            return Rate(tuple(self.rates))
        return Rate((self.images / max(self.seconds, 1e-9),))

    @property
    def wait_share(self) -> float:
        """Part of the time spent waiting for the loader."""
        return self.wait_seconds / max(self.seconds, 1e-9)


def counted_batches(
    loader: Loader, tally: Tally, *, epochs: int | None, steps: int | None
) -> Iterator[Batch]:
    """Take batches and count them.

    Args:
        loader: Where they come from.
        tally: Counts them.
        epochs: None means one epoch, or with `steps` as many as those take.
        steps: Batches in all; None means whole epochs.
    """
    for epoch in count():
        if epochs == epoch or (epochs is None and not steps and epoch):
            return
        batches = iter(loader)
        try:
            while True:
                asked = clock()
                batch = next(batches, None)
                if batch is None:
                    break
                tally.add(len(batch), clock() - asked)
                yield batch
                if tally.steps == steps:
                    return
        finally:
            for stage, seconds in stage_seconds(loader.stats()).items():
                tally.stage_seconds[stage] += seconds


def num_steps(loader: Loader, *, epochs: int | None, steps: int | None) -> int:
    """Number of batches that `counted_batches` will take."""
    whole = len(loader) * (epochs or 1)
    if steps is None:
        return whole
    return steps if epochs is None else min(steps, whole)
