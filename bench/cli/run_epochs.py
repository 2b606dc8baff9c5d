"""The batches of a loader's epochs, and their rate while they come."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

from bench.timing import Measurement, Turn
from dali_pipes import Batch, Loader
from dali_pipes.stats import Stats
from dali_pipes.stats.counts import STAGE_GROUPS
from gpu_aug.compiled.clock import clock

_STRETCH_SECONDS = 1.0  # long enough for several batches, short enough to see a slow one


@dataclass
class Tally:
    """The rate in stretches of a second; all else stands in the loader's statistics."""

    images: int = 0
    turns: list[Turn] = field(default_factory=list)
    began: float = field(default_factory=clock)
    seconds: float = 0.0
    _stretch: tuple[int, float] | None = None  # the images before it, and when it began

    def add(self, num_images: int) -> None:
        """Count a batch."""
        now = clock()
        self.images += num_images
        self.seconds = now - self.began
        if self._stretch is None:  # the first batch pays for the start
            self._stretch = (self.images, now)
        before, began = self._stretch
        if now - began >= _STRETCH_SECONDS:
            self.turns.append(Turn(self.images - before, now - began))
            self._stretch = (self.images, now)

    @property
    def rate(self) -> Measurement:
        """Images per second in stretches of a second after the first batch.

        A run that is too short for one goes by all of its time: batches that were made beside the first one would
        count as if they took none.
        """
        return Measurement(tuple(self.turns or [Turn(self.images, self.seconds)]))


def batches_of(
    loader: Loader,
    *,
    epochs: int | None,
    steps: int | None,
    on_epoch: Callable[[Stats], None] = lambda _: None,
) -> Iterator[Batch]:
    """Take batches, epoch after epoch.

    Args:
        loader: Where they come from.
        epochs: None means one epoch, or with `steps` as many as those take.
        steps: Batches in all; None means whole epochs.
        on_epoch: Gets the statistics of each epoch at its end, also where it is left before.
    """
    taken = 0
    for epoch in count():
        if epochs == epoch or (epochs is None and not steps and epoch):
            return
        try:
            for batch in loader:
                taken += 1
                yield batch
                if taken == steps:
                    return
        finally:
            on_epoch(loader.stats())


def num_steps(loader: Loader, *, epochs: int | None, steps: int | None) -> int:
    """Number of batches that `batches_of` will take."""
    whole = len(loader) * (epochs or 1)
    if steps is None:
        return whole
    return steps if epochs is None else min(steps, whole)


def work_shares(stats: Stats) -> dict[str, float | None]:
    """Which part of the loader's work each of read, decode, augment and copy was; None before there is any."""
    seconds = {
        name: sum(stats.stages[stage].busy_seconds for stage in stages)
        for name, stages in STAGE_GROUPS.items()
    }
    total = sum(seconds.values())
    return {name: round(own / total, 3) if total > 0 else None for name, own in seconds.items()}
