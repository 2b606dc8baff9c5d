"""Which positions of an epoch each step on each rank stands for."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from readers import part

LastBatch = Literal["drop", "partial", "pad"]


@dataclass(frozen=True, slots=True)
class Plan:
    """Which positions of the epoch's order one rank's step stands for.

    Attributes:
        epoch: Counts from 0.
        step: Counts from 0 within the epoch, or from where a resumed epoch went on.
        positions: int64 [B], this rank's share.
        valid: bool [B]: False where a position is repeated to fill up the last batch.
        consumed: Positions of the epoch that all ranks together have had after this step.
    """

    epoch: int
    step: int
    positions: NDArray[np.int64]
    valid: NDArray[np.bool_]
    consumed: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """The steps of an epoch, the same number on every rank.

    A step stands for the next `batch_size * world_size` positions, the global batch; each rank has a
    contiguous share of it. So the samples of a step do not depend on how many ranks share them.

    Attributes:
        length: Number of samples in the dataset.
        batch_size: Samples per rank and step.
        rank: This rank, 0 <= rank < world_size.
        world_size: Number of ranks.
        last_batch: What becomes of a last global batch that is not full. "drop" leaves it out. "partial"
            shares out what is left, so that ranks may differ by one sample and one may have none.
            "pad" fills up with samples from the start of the epoch's order, marked as not valid.
    """

    length: int
    batch_size: int
    rank: int
    world_size: int
    last_batch: LastBatch

    @property
    def global_batch(self) -> int:
        """Samples per step over all ranks."""
        return self.batch_size * self.world_size

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
            positions = np.arange(low, high, dtype=np.int64)
            # What "drop" leaves out is consumed with the last step, so that the epoch is over.
            had = self.length if step == num_steps - 1 else stop
            yield Plan(epoch, step, positions % self.length, positions < self.length, had)
