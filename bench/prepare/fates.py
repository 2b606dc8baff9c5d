"""What happens to each attempt at a task in a simulated cluster: numbers drawn from (seed, task, attempt) alone."""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from readers.permutation import make_keys, permute

_BLOCK = 4096  # tasks that are drawn together
_RANGE = 1 << 40
_MOST_ATTEMPTS = 64

WRITING, FILE, INDEX, ENTRY = range(4)
"""How far an attempt came: nothing can be seen of it, its shard, also its index, also its entry, the mark that it is done."""


class Fate(NamedTuple):
    """What happens to one attempt.

    Attributes:
        seconds: How long it takes, or would; endless for one that hangs.
        dies_after: The last of WRITING, FILE, INDEX and ENTRY that it reaches; None if it does not die.
        part: Of its time, 0 to 1, at which it dies while writing.
    """

    seconds: float
    dies_after: int | None
    part: float


@dataclass(frozen=True)
class Fates:
    """How attempts go, most often and otherwise.

    Attributes:
        seconds: A usual task takes between 0.8 and 1.2 times this.
        slow: Share of the attempts that take `slow_factor` times as long.
        slow_factor: See above.
        hang: Share that never ends.
        die: Share that loses its worker, as often while writing as after each step of making the shard seen.
        seed: >= 0.
    """

    seconds: float = 15.0
    slow: float = 0.0
    slow_factor: float = 10.0
    hang: float = 0.0
    die: float = 0.0
    seed: int = 0

    def of(self, number: int, attempt: int) -> Fate:
        """Draw what happens to an attempt, 0 for the first one."""
        block, row = divmod(number, _BLOCK)
        if attempt == 0:
            drawn = _first(self, block)[row]
        else:
            drawn = _draw(self, np.asarray([number * _MOST_ATTEMPTS + attempt]))[0]
        speed, slow, hang, die, step, part = map(float, drawn)
        seconds = self.seconds * (0.8 + 0.4 * speed) * (self.slow_factor if slow < self.slow else 1)
        dies_after = int(4 * step) if die < self.die else None
        return Fate(float("inf") if hang < self.hang else seconds, dies_after, part)


@lru_cache(maxsize=4)
def _first(fates: Fates, block: int) -> NDArray[np.float64]:
    return _draw(fates, np.arange(block * _BLOCK, (block + 1) * _BLOCK) * _MOST_ATTEMPTS)


def _draw(fates: Fates, places: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return numbers from 0 to 1, float64 [n, 6]."""
    columns = [permute(places, _RANGE, make_keys(fates.seed, kind)) for kind in range(6)]
    return np.stack(columns, axis=1) / _RANGE
