"""A candidate at work: a real loader, and a consumer that takes its batches as a training step would."""

import time
import warnings
from collections.abc import Callable, Iterator
from itertools import count

from bench.compare.timer import synchronise
from bench.tune.heat import Turn
from dali_pipes import Batch, Loader
from dali_pipes.stats.stats import Stats
from gpu_aug.compiled.clock import clock

_REST_SECONDS_MAX = 3.0
_MORE_OF_DALI = 2  # steps in its other stages, see Loader's prefetch


class Trial:
    """One loader that has turns.

    Between its turns it is not asked, so once it has made what it makes ahead it takes nothing from the others. A turn
    begins with taking that, before the clock starts.

    Args:
        make: Makes the loader.
        step_seconds: How long a training step takes; 0 takes batches as fast as they come.
        prefetch: Batches that the loader makes ahead.
        epoch: Where it begins. Candidates that begin with different epochs do not find in the page cache what
            another one has just read.

    Attributes:
        loader: The loader, once it is open.
    """

    def __init__(
        self, make: Callable[[], Loader], *, step_seconds: float, prefetch: int, epoch: int = 0
    ) -> None:
        self._make, self._step_seconds, self._epoch = make, step_seconds, epoch
        self._prefetch = prefetch
        self.loader: Loader | None = None
        self._batches: Iterator[Batch] = iter(())
        self._before: Stats | None = None

    @property
    def stats(self) -> Stats:
        """What the loader did in its latest turn."""
        assert self.loader is not None
        assert self._before is not None
        return self.loader.stats("run") - self._before

    def open(self) -> None:
        """Make the loader, and take its first batch.

        Raises:
            dali_pipes.LoaderError: It cannot be made here, or another of the packages' errors.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # who made the first loader has heard of it
            self.loader = self._make()
        self.loader.set_epoch(self._epoch)
        self._batches = _endless(self.loader)
        began = clock()
        num_samples = len(next(self._batches))
        self._rest(num_samples / max(clock() - began, 1e-6), num_samples)

    def turn(self, seconds: float, *, step_seconds: float | None = None) -> Turn:
        """Take batches for so long, to the end of the last one.

        Args:
            seconds: How long.
            step_seconds: Takes the place of the one that was given.
        """
        assert self.loader is not None
        step = self._step_seconds if step_seconds is None else step_seconds
        for _ in range(self._num_ahead + 1):
            next(self._batches)
        time.sleep(
            step
        )  # else the first step finds an empty queue, which in a long run happens once
        synchronise(self.loader.device)
        self._before = self.loader.stats("run")
        began, samples, waited, size = clock(), 0, 0.0, 1
        while clock() - began < seconds:
            asked = clock()
            size = len(next(self._batches))
            waited += clock() - asked
            samples += size
            if step:
                time.sleep(step)
        synchronise(self.loader.device)
        turn = Turn(samples, clock() - began, waited)
        self._rest(turn.rate, size)
        return turn

    def close(self) -> None:
        """End the loader."""
        if self.loader is not None:
            self._batches = iter(())
            self.loader.close()
            self.loader = None

    @property
    def _num_ahead(self) -> int:
        more = _MORE_OF_DALI if self.loader and self.loader.decoder == "dali" else 0
        return self._prefetch + more

    def _rest(self, rate: float, size: int) -> None:
        """Wait until the loader has made what it makes ahead, and is quiet."""
        time.sleep(min(_REST_SECONDS_MAX, self._num_ahead * size / max(rate, 1e-6)))


def _endless(loader: Loader) -> Iterator[Batch]:
    """The batches of one epoch after the other.

    Raises:
        dali_pipes.LoaderError: As the loader does.
    """
    for _ in count():
        yield from loader
