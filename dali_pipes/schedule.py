"""Which positions of an epoch each step on each rank stands for."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from readers import part

LastBatch = Literal["drop", "partial", "pad"]
MAX_EPOCH = 2**32 - 1
"""Nobody trains for so long, but damaged files say so."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Which positions of the epoch's order one rank's step stands for.

    Attributes:
        epoch: Counts from 0.
        step: Counts from 0 within the epoch, or from where a resumed epoch went on.
        positions: int64 [E], what is worked on: this rank's share, and where neighbouring samples are
            mixed the rest of their groups.
        rows: int64 [B], the rows of `positions` that are this rank's share and are handed over.
        valid: bool [B]: False where a position is repeated to fill up the last batch.
        consumed: Positions of the epoch that all ranks together have had after this step.
        rank: The rank to which the step belongs.
    """

    epoch: int
    step: int
    positions: NDArray[np.int64]
    rows: NDArray[np.int64]
    valid: NDArray[np.bool_]
    consumed: int
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Schedule:
    """The steps of an epoch, the same number on every rank.

    A step stands for the next `batch_size * world_size` positions, the global batch; each rank has a
    contiguous share of it. So the samples of a step do not depend on how many ranks share them.

    Attributes:
        length: Positions of an epoch; most often the number of samples in the dataset.
        batch_size: Samples per rank and step.
        rank: This rank, 0 <= rank < world_size.
        world_size: Number of ranks.
        last_batch: What becomes of a last global batch that is not full. "drop" leaves it out. "partial"
            shares out what is left, so that ranks may differ by one sample and one may have none.
            "pad" fills up with samples from the start of the epoch's order, marked as not valid.
        group: How many neighbouring positions of the order are mixed: 1, 2 or 4.
    """

    length: int
    batch_size: int
    rank: int
    world_size: int
    last_batch: LastBatch
    group: int = 1

    @property
    def global_batch(self) -> int:
        """Samples per step over all ranks."""
        return self.batch_size * self.world_size

    @property
    def largest(self) -> int:
        """The most positions that a plan can have."""
        return self.batch_size + 2 * (self.group - 1)

    def num_steps(self, consumed: int = 0) -> int:
        """Steps that are left in an epoch of which some positions are consumed."""
        left = self.length - consumed
        if self.last_batch == "drop":
            return left // self.global_batch
        return -(-left // self.global_batch)

    def plans(self, epoch: int, consumed: int) -> Iterator[Plan]:
        """The steps that are left in an epoch, in order."""
        num_steps = self.num_steps(consumed)
        for step in range(num_steps):
            start = consumed + step * self.global_batch
            full = start + self.global_batch
            stop = min(full, self.length)
            low, high = part(
                start, full if self.last_batch == "pad" else stop, self.rank, self.world_size
            )
            share = np.arange(low, high, dtype=np.int64)
            positions, rows = whole_groups(share % self.length, self.group, self.length)
            # What "drop" leaves out is consumed with the last step, so that the epoch is over.
            had = self.length if step == num_steps - 1 else stop
            yield Plan(epoch, step, positions, rows, share < self.length, had, self.rank)


def whole_groups(
    share: NDArray[np.int64], group: int, length: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Add the rest of their groups to positions.

    Groups begin at multiples of `group`; the last one of an epoch may have fewer members.

    Args:
        share: int64 [B], positions, 0 <= position < length.
        group: 1, 2 or 4; 1 leaves the positions as they are.
        length: Number of positions in the epoch.

    Returns:
        int64 [E], all members of the groups, ascending and each once, so that only the last group can
        have fewer members than the others; and int64 [B], where the share stands among them.
    """
    if group == 1:
        return share, np.arange(len(share))
    members = (share - share % group)[:, None] + np.arange(group)
    positions = np.unique(members[members < length])
    return positions, np.searchsorted(positions, share)
