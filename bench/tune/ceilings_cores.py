"""How many cores this process has, and how many it gets."""

import hashlib
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median

TAKEN = 0.8
"""Others take the cores where a process that wants all of them gets less than this share."""


@dataclass(frozen=True, slots=True)
class Cores:
    """Cores, nominal and real.

    Attributes:
        usable: Cores that this process may use.
        got: Cores that its threads got when as many of them as there are cores had work all the time: their CPU
            seconds divided by the seconds that passed.
        others: Cores that were busy with other processes meanwhile; None where the system does not tell.
    """

    usable: int
    got: float
    others: float | None = None

    @property
    def taken(self) -> bool:
        """Whether somebody else takes a noticeable part of them."""
        return self.got < TAKEN * self.usable


class CoresMeter:
    """Finds out how many cores this process gets: all of its threads work for a while, several times.

    Args:
        usable: Cores that this process may use.
    """

    def __init__(self, usable: int) -> None:
        self.usable = usable
        self._got: list[float] = []
        self._others: list[float] = []

    def turn(self, seconds: float) -> None:
        """Let as many threads as there are cores work for some seconds, without Python's lock."""
        before, own, began = _busy_seconds(), time.process_time(), time.perf_counter()
        with ThreadPoolExecutor(self.usable) as pool:
            spent = sum(pool.map(_work, [seconds] * self.usable))
        elapsed, after = time.perf_counter() - began, _busy_seconds()
        self._got.append(min(spent / elapsed, float(self.usable)))
        if before is not None and after is not None:
            others = (after - before) - (time.process_time() - own)
            self._others.append(max(others / elapsed, 0.0))

    @property
    def cores(self) -> Cores:
        """The medians of all turns."""
        others = median(self._others) if self._others else None
        return Cores(self.usable, median(self._got), others)


def _work(seconds: float) -> float:
    """Compute a digest over and over, which releases Python's lock; return the seconds of a core that this took."""
    data, until, cpu = bytes(1 << 20), time.perf_counter() + seconds, time.thread_time()
    while time.perf_counter() < until:
        hashlib.sha256(data)
    return time.thread_time() - cpu


def _busy_seconds() -> float | None:
    """Seconds for which cores of this machine were busy since it was started; None where the system does not tell."""
    try:
        fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    except (OSError, IndexError):
        return None
    user, nice, system, _idle, _waiting, interrupts, soft = map(int, fields[:7])
    return (user + nice + system + interrupts + soft) / os.sysconf("SC_CLK_TCK")
