"""The seed, epoch and sample index of each call of a transform, also in the workers of a DataLoader."""

import itertools
import threading
from typing import NamedTuple

import torch
from torch.utils.data import get_worker_info

_MOST_SEEDS = 2**63 - 1  # the largest limit that torch.randint takes


class Run(NamedTuple):
    """Calls whose sample indices follow from one rule.

    Attributes:
        seed: Seed of the calls.
        epoch: Epoch of the calls.
        first: Sample index of the first call.
        step: Difference of the indices of consecutive calls.
    """

    seed: int
    epoch: int
    first: int
    step: int


class Numbering:
    """Gives each call a number, so that each has its own draw.

    In a worker of torch's DataLoader, the base seed that the DataLoader draws from torch's generator for each of its
    loops takes the
    place of the epoch, and workers take indices in turn. So no two calls have one draw, whatever the number of workers, and
    ``torch.manual_seed`` makes all draws repeatable.

    Args:
        seed: Seed, not negative; None takes one from torch's generator at the first call, separately in each worker.
        epoch: Epoch, not negative.
    """

    def __init__(self, seed: int | None, epoch: int = 0) -> None:
        self.seed, self._epoch = seed, epoch
        self._lock = threading.Lock()
        self._key: int | None = None
        self._run: Run | None = None
        self._calls = itertools.count()

    @property
    def epoch(self) -> int:
        """The epoch outside workers."""
        return self._epoch

    def begin(self, epoch: int) -> None:
        """Begin an epoch: calls are counted from 0 again."""
        self._epoch = epoch
        self._key = None

    def take(self, count: int = 1) -> tuple[Run, int]:
        """Return the run of the next ``count`` calls, and the number of the first of them in the run."""
        with self._lock:
            run = self._current()
            first = next(self._calls)
            for _ in range(count - 1):
                next(self._calls)
            return run, first

    def given(self) -> Run:
        """Return the run of calls for which the user gives indices."""
        with self._lock:
            return Run(self._current().seed, self._epoch, 0, 1)

    def _current(self) -> Run:
        worker = get_worker_info()
        key = -1 if worker is None else worker.seed
        if self._run is None or key != self._key:
            self._key, self._run = key, self._start()
            self._calls = itertools.count()
        return self._run

    def _start(self) -> Run:
        worker = get_worker_info()
        seed = self.seed
        if seed is None:
            seed = int(torch.randint(_MOST_SEEDS, (), device="cpu"))
        if worker is None:
            return Run(seed, self._epoch, 0, 1)
        return Run(seed, worker.seed - worker.id, worker.id, worker.num_workers)
