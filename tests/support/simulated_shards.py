"""The attempts at the tasks of a simulated preparation, and the files that they leave at its destination."""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from readers.order.permutation import make_keys, permute
from readers.prepare.errors import PrepareError

_BLOCK = 4096  # tasks that are drawn together, because the permutation is vectorised
_RANGE = 1 << 40
_MOST_ATTEMPTS = 64

WRITING, FILE, INDEX, ENTRY = range(4)
"""Steps of an attempt: nothing can be seen yet, the shard, also its index, also its entry (the mark that it is done)."""


class Fate(NamedTuple):
    """The course of one attempt.

    Attributes:
        seconds: How long it takes; infinite for one that hangs.
        dies_after: The last of WRITING, FILE, INDEX and ENTRY that it reaches; None if it does not die.
        part: Share of its time, 0 to 1, after which it dies while writing.
    """

    seconds: float
    dies_after: int | None
    part: float


@dataclass(frozen=True)
class Fates:
    """Draws the course of each attempt from (seed, task, attempt) alone.

    Attributes:
        seconds: A usual task takes between 0.8 and 1.2 times this.
        slow: Share of the attempts that take ten times as long.
        hang: Share that never ends.
        die: Share that loses its worker, as often while writing as after each later step.
        seed: >= 0.
    """

    seconds: float = 15.0
    slow: float = 0.0
    hang: float = 0.0
    die: float = 0.0
    seed: int = 0

    def of(self, number: int, attempt: int) -> Fate:
        """Draw the course of an attempt, 0 for the first one."""
        block, row = divmod(number, _BLOCK)
        if attempt == 0:
            drawn = _first(self.seed, block)[row]
        else:
            drawn = _draw(self.seed, np.asarray([number * _MOST_ATTEMPTS + attempt]))[0]
        speed, slow, hang, die, step, part = map(float, drawn)
        seconds = self.seconds * (0.8 + 0.4 * speed) * (10 if slow < self.slow else 1)
        dies_after = int(4 * step) if die < self.die else None
        return Fate(float("inf") if hang < self.hang else seconds, dies_after, part)


@lru_cache(maxsize=4)
def _first(seed: int, block: int) -> NDArray[np.float64]:
    return _draw(seed, np.arange(block * _BLOCK, (block + 1) * _BLOCK) * _MOST_ATTEMPTS)


def _draw(seed: int, places: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return numbers from 0 to 1, float64 [n, 6]."""
    columns = [permute(places, _RANGE, make_keys(seed, kind)) for kind in range(6)]
    return np.stack(columns, axis=1) / _RANGE


class Storage:
    """The shards, their indexes and their entries.

    Args:
        num_shards: Number of shards of the plan.

    Attributes:
        seen: bool [shards, 4], by FILE, INDEX and ENTRY.
        made: How many times each shard was written, uint8 [shards].
    """

    def __init__(self, num_shards: int) -> None:
        self.seen = np.zeros((num_shards, 4), np.bool_)
        self.made = np.zeros(num_shards, np.uint8)

    def write(self, number: int, last: int) -> None:
        """Do the steps of an attempt up to the last that it reaches; each replaces what was there."""
        self.made[number] += last >= FILE
        self.seen[number, FILE : last + 1] = True

    def has_entry(self, number: int) -> bool:
        """Whether a shard is marked as done."""
        return bool(self.seen[number, ENTRY])

    def is_sound(self) -> bool:
        """Whether every shard that is marked as done is complete."""
        complete = self.seen[:, FILE] & self.seen[:, INDEX]
        return bool(complete[self.seen[:, ENTRY]].all())

    def merge(self) -> int:
        """Merge the entries, and return their number.

        Raises:
            PrepareError: One is missing.
        """
        missing = np.flatnonzero(~self.seen[:, ENTRY])
        if missing.size:
            raise PrepareError(f"{missing.size} shards are not done, the first is {missing[0]}")
        return len(self.seen)
