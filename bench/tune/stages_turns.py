"""Timing work in turns: on one thread and on all threads, by the clock on the wall and by the clock of the thread."""

import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from statistics import median

from bench.compare.timer import Rate
from bench.micro.turns import Turns
from dali_pipes.pipeline.threads import single_threaded_pool
from gpu_aug.compiled.clock import clock

Work = Callable[[int], int]
"""Does the part of the work with this number, 0, 1, 2 and so on without end, and returns its number of images."""


@dataclass(slots=True)
class Timed:
    """What the turns of one work took.

    Attributes:
        alone: Images per second of one thread.
        together: Images per second of all threads.
        cpu: Seconds of a core per image, with all threads at work.
    """

    alone: list[float] = field(default_factory=list)
    together: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @property
    def rates(self) -> tuple[Rate, Rate, Turns]:
        """The same as ranges."""
        return Rate(tuple(self.alone)), Rate(tuple(self.together)), Turns(tuple(self.cpu))

    @property
    def cpu_seconds(self) -> float:
        """The median."""
        return median(self.cpu)


class Threads:
    """Threads for measuring, as those of a loader: each keeps torch to itself.

    Args:
        count: How many.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool: ThreadPoolExecutor = single_threaded_pool(count)

    def __enter__(self) -> "Threads":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def once(self, work: Work) -> float:
        """Do the first part on one of the threads and return the seconds of a core that it took per image."""
        return self._pool.submit(_run, work, itertools.count(), 0.0, None).result()[1]

    def turn(self, work: Work, timed: Timed, seconds: float) -> None:
        """Let one thread work for some seconds, and then all of them."""
        [(rate, cpu)] = self._run(work, 1, seconds)
        timed.alone.append(rate)
        if self.count == 1:
            timed.together.append(rate)
            timed.cpu.append(cpu)
            return
        found = self._run(work, self.count, seconds)
        rates = [rate for rate, _ in found]
        timed.together.append(sum(rates))
        timed.cpu.append(sum(rate * cpu for rate, cpu in found) / sum(rates))

    def _run(self, work: Work, count: int, seconds: float) -> list[tuple[float, float]]:
        numbers, barrier = itertools.count(), threading.Barrier(count)
        runs = [self._pool.submit(_run, work, numbers, seconds, barrier) for _ in range(count)]
        return [run.result() for run in runs]


def _run(
    work: Work, numbers: "itertools.count[int]", seconds: float, barrier: threading.Barrier | None
) -> tuple[float, float]:
    """Work for some seconds, at least once; return images per second, and seconds of a core per image."""
    if barrier is not None:
        barrier.wait()
    images, began, cpu = 0, clock(), time.thread_time()
    while True:
        images += work(next(numbers))
        elapsed = clock() - began
        if elapsed >= seconds:
            break
    spent = time.thread_time() - cpu
    return max(images, 1) / max(elapsed, 1e-9), spent / max(images, 1)
