"""Which positions of an epoch each step on each rank stands for."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dali_pipes.steps.multi_scale import MultiScale
from dali_pipes.steps.variants import Variants
from readers import part
from readers.bucket_order import num_turns

LastBatch = Literal["drop", "partial", "pad"]
MAX_EPOCH = 2**32 - 1
"""Nobody trains for so long, but damaged files say so."""

Consumed = int | tuple[int, ...]
"""Positions that all ranks together have had of an epoch: of each bucket, where there are buckets; 0 for none at all."""


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
        variant: Which of the run's recipes makes its images; see Variants.
        bucket: The bucket of its samples; 0 where there are none.
    """

    epoch: int
    step: int
    positions: NDArray[np.int64]
    rows: NDArray[np.int64]
    valid: NDArray[np.bool_]
    consumed: Consumed
    rank: int = 0
    variant: int = 0
    bucket: int = 0


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of an epoch, the same number on every rank.

    A step stands for the next `batch_size * world_size` positions, the global batch; each rank has a
    contiguous share of it. So the samples of a step do not depend on how many ranks share them. Where sizes change
    within the epoch no step lies on both sides of a change, so that after a resume with another batch size one step
    can be smaller.

    Attributes:
        length: Positions of an epoch; most often the number of samples in the dataset.
        batch_size: Samples per rank and step.
        rank: This rank, 0 <= rank < world_size.
        world_size: Number of ranks.
        last_batch: What becomes of a last global batch that is not full. "drop" leaves it out. "partial"
            shares out what is left, so that ranks may differ by one sample and one may have none.
            "pad" fills up with samples from the start of the epoch's order, marked as not valid.
        group: How many neighbouring positions of the order are mixed: 1, 2 or 4.
        seed: Seed of the changes of size.
        variants: The recipes of the run; None where there is one.
    """

    length: int
    batch_size: int
    rank: int
    world_size: int
    last_batch: LastBatch
    group: int = 1
    seed: int = 0
    variants: Variants | None = None

    @property
    def global_batch(self) -> int:
        """Samples per step over all ranks."""
        return self.batch_size * self.world_size

    @property
    def left_out(self) -> int:
        """Samples that an epoch leaves out."""
        return self.length % self.global_batch if self.last_batch == "drop" else 0

    @property
    def largest(self) -> int:
        """The most positions that a plan can have."""
        return self.batch_size + 2 * (self.group - 1)

    def largest_of(self, variant: int) -> int:
        """The most positions that a plan of a variant can have."""
        del variant
        return self.largest

    def num_steps(self, consumed: Consumed = 0) -> int:
        """Steps that are left in an epoch of which some positions are consumed."""
        start = _whole(consumed)
        # Up to the next change of size, from where on changes and steps go together.
        change = min(self._change_after(start), self.length)
        left = self.length - start
        if change == self.length:
            return num_turns(left, self.global_batch, drop=self.last_batch == "drop")
        first = num_turns(change - start, self.global_batch, drop=False)
        rest = num_turns(self.length - change, self.global_batch, drop=self.last_batch == "drop")
        return first + rest

    def plans(self, epoch: int, consumed: Consumed = 0) -> Iterator[Plan]:
        """The steps that are left in an epoch, in order."""
        num_steps, start = self.num_steps(consumed), _whole(consumed)
        for step in range(num_steps):
            full = min(start + self.global_batch, self._change_after(start))
            stop = min(full, self.length)
            variant, group = self._variant_at(epoch, start)
            low, high = part(
                start, full if self.last_batch == "pad" else stop, self.rank, self.world_size
            )
            share = np.arange(low, high, dtype=np.int64)
            positions, rows = whole_groups(share % self.length, group, self.length)
            # What "drop" leaves out is consumed with the last step, so that the epoch is over.
            had = self.length if step == num_steps - 1 else stop
            valid = share < self.length
            yield Plan(epoch, step, positions, rows, valid, had, self.rank, variant)
            start = stop

    def _change_after(self, position: int) -> int:
        """The first change of size behind a position; somewhere behind the epoch where there is none."""
        sizes = None if self.variants is None else self.variants.sizes
        if not isinstance(sizes, MultiScale):
            return max(self.length, position) + self.global_batch
        return position - position % sizes.every + sizes.every

    def _variant_at(self, epoch: int, position: int) -> tuple[int, int]:
        """The variant of a step, and how many neighbours it mixes."""
        if self.variants is None:
            return 0, self.group
        sizes = self.variants.sizes
        size = sizes.at(self.seed, epoch, position) if isinstance(sizes, MultiScale) else 0
        variant = self.variants.at(epoch, size)
        return variant, self.variants.views[variant].group


def total(consumed: Consumed) -> int:
    """Positions that are consumed together."""
    return consumed if isinstance(consumed, int) else sum(consumed)


def _whole(consumed: Consumed) -> int:
    assert isinstance(consumed, int)  # there are no buckets
    return consumed


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
