"""Which files of each shard can be seen at the destination of a simulated preparation."""

import numpy as np

from bench.prepare.fates import ENTRY, FILE, INDEX
from readers.prepare.errors import PrepareError


class Storage:
    """The shards, their indexes and their entries.

    Args:
        num_shards: All of the plan.

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
        for step in range(FILE, last + 1):
            self.seen[number, step] = True

    def has_entry(self, number: int) -> bool:
        """Whether a shard is marked as done."""
        return bool(self.seen[number, ENTRY])

    def is_sound(self) -> bool:
        """Whether everything that is marked as done is whole."""
        whole = self.seen[:, FILE] & self.seen[:, INDEX]
        return bool(whole[self.seen[:, ENTRY]].all())

    def merge(self) -> int:
        """Put the entries together, and return how many there are.

        Raises:
            PrepareError: One is missing.
        """
        missing = np.flatnonzero(~self.seen[:, ENTRY])
        if missing.size:
            raise PrepareError(f"{missing.size} shards are not done, the first is {missing[0]}")
        return len(self.seen)
