"""The schedule of steps: which positions of an epoch's order make each step, and which of them each rank takes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dali_pipes.steps.variants import MultiScale, Variants
from readers import part
from readers.order.bucket_order import BucketOrder, num_turns, take_turns
from readers.order.shuffle import AnyOrder

LastBatch = Literal["drop", "partial", "pad"]
# Keys of draws have 32 bits for the epoch. A larger number can only come from a damaged file.
MAX_EPOCH = 2**32 - 1
# Positions that are searched at a time: 2 MB of int64, which fit into the processor's cache.
_PIECE = 1 << 18

Consumed = int | tuple[int, ...]
"""Count of an epoch's positions that all ranks together have received. With buckets: one count per bucket, or 0 at the
start of the epoch."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The positions of one rank's step in the epoch's order.

    Attributes:
        epoch: Number of the epoch, from 0.
        step: Number of the step, from 0 in each epoch, or from the step at which a resumed epoch continued.
        positions: int64 [E], this rank's positions and, if the recipe mixes neighbouring samples, the positions of
            all samples that are mixed with this rank's samples.
        rows: int64 [B], indices into `positions` of this rank's own samples, which form its batch.
        valid: bool [B], False for positions that are repeated to fill up the last batch.
        consumed: Count of the epoch's positions that all ranks together have received after this step.
        rank: The rank to which the step belongs.
        variant: Index of the recipe of the step's images in `Variants.views`.
        bucket: Index of the bucket of the step's samples; 0 without buckets.
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
class EpochSteps:
    """Base class of the steps of an epoch. Every rank has the same number of steps.

    A step takes the next `batch_size * world_size` positions, the global batch, and each rank takes a contiguous share
    of them. So the samples of a step do not depend on the number of ranks that share them.

    Attributes:
        length: Positions of an epoch; usually the number of samples in the dataset.
        batch_size: Samples per rank and step; with buckets, the largest batch size of a bucket.
        rank: This rank, 0 <= rank < world_size.
        world_size: Number of ranks.
        last_batch: Handling of an incomplete last global batch. "drop" leaves it out. "partial" divides the remaining
            samples: ranks may differ by one sample, and a rank may have none. "pad" fills it up with samples from the
            start of the epoch's order, which are marked as not valid.
        variants: The recipes of the run.
    """

    length: int
    batch_size: int
    rank: int
    world_size: int
    last_batch: LastBatch
    variants: Variants

    @property
    def global_batch(self) -> int:
        """Samples per step over all ranks."""
        return self.batch_size * self.world_size

    @property
    def left_out(self) -> int:
        """Number of samples that an epoch leaves out."""
        return self.length % self.global_batch if self.last_batch == "drop" else 0

    @property
    def largest(self) -> int:
        """Upper bound of the positions in a plan, which may be more than the batch size.

        Groups of mixed samples may start before this rank's share and end after it.
        """
        return self.batch_size + 2 * (self.variants.group - 1)

    def largest_of(self, variant: int) -> int:
        """Return an upper bound of the positions in a plan of a variant."""
        del variant
        return self.largest

    def consumed_ranges(self, consumed: Consumed) -> list[tuple[int, int]]:
        """Return consumed positions as (start, stop), half open; one pair per bucket."""
        return [(0, total(consumed))]

    def _share(
        self, batch: tuple[int, int], bounds: tuple[int, int], variant: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Return `positions`, `rows` and `valid` of this rank's plan.

        Args:
            batch: Positions of the global batch, start and stop (half open); the last batch may end after `bounds`.
            bounds: Positions of the epoch or bucket, start and stop (half open).
            variant: Index of the recipe, which determines how many neighbours are mixed.
        """
        (start, stop), (first, end) = batch, bounds
        if self.last_batch != "pad":
            stop = min(stop, end)
        share = np.arange(*part(start, stop, self.rank, self.world_size), dtype=np.int64)
        group = self.variants.views[variant].group
        positions, rows = complete_groups((share - first) % (end - first), group, end - first)
        return first + positions, rows, share < end


@dataclass(frozen=True, slots=True)
class Steps(EpochSteps):
    """The steps of an epoch without buckets.

    If image sizes change within the epoch, no step contains a change. So after a resume with another batch size, one
    step may be smaller.

    Attributes:
        seed: Seed of the changes of size.
    """

    seed: int = 0

    def num_steps(self, consumed: Consumed = 0) -> int:
        """Return the number of remaining steps of an epoch, given its consumed positions."""
        start, drop = total(consumed), self.last_batch == "drop"
        # Up to the next change of size; after it, changes and steps are aligned.
        change = min(self._next_change(start), self.length)
        is_last = change == self.length
        first = num_turns(change - start, self.global_batch, drop=drop and is_last)
        return first + num_turns(self.length - change, self.global_batch, drop=drop)

    def plans(self, epoch: int, consumed: Consumed = 0) -> Iterator[Plan]:
        """Yield the remaining steps of an epoch, in order."""
        num_steps, start = self.num_steps(consumed), total(consumed)
        for step in range(num_steps):
            full = min(start + self.global_batch, self._next_change(start))
            stop = min(full, self.length)
            variant = self.variants.at(epoch, self._size_at(epoch, start))
            # The samples that "drop" leaves out are consumed with the last step, so that the epoch is over.
            after = self.length if step == num_steps - 1 else stop
            share = self._share((start, full), (0, self.length), variant)
            yield Plan(epoch, step, *share, after, self.rank, variant)
            start = stop

    def _next_change(self, position: int) -> int:
        """Return the next position at which the image size changes, or a position after the epoch if it does not."""
        sizes = self.variants.sizes
        if not isinstance(sizes, MultiScale):
            return max(self.length, position) + self.global_batch
        return position - position % sizes.every + sizes.every

    def _size_at(self, epoch: int, position: int) -> int:
        """Return the index in `MultiScale.sizes` of the image size at a position; 0 if sizes do not change."""
        sizes = self.variants.sizes
        return sizes.at(self.seed, epoch, position) if isinstance(sizes, MultiScale) else 0


@dataclass(frozen=True, slots=True)
class BucketSteps(EpochSteps):
    """The steps of an epoch whose samples are in buckets: each step takes the next samples of one bucket.

    All ranks take the buckets in the same order; see `readers.order.bucket_order.take_turns`. `last_batch` applies to
    each bucket.

    Attributes:
        order: The order with the buckets.
        batch_sizes: Samples per rank and step, for each bucket.
    """

    order: BucketOrder
    batch_sizes: tuple[int, ...]

    @property
    def left_out(self) -> int:
        """Number of samples that an epoch leaves out."""
        if self.last_batch != "drop":
            return 0
        pairs = zip(self.order.lengths, self._global_batches, strict=True)
        return sum(length % batch for length, batch in pairs)

    def largest_of(self, variant: int) -> int:
        """Return an upper bound of the positions in a plan of a variant."""
        sizes = [self.batch_sizes[size] for size in self.variants.sizes_of(variant)]
        return max(sizes) + 2 * (self.variants.group - 1)

    def num_steps(self, consumed: Consumed = 0) -> int:
        """Return the number of remaining steps of an epoch, given its consumed positions."""
        drop = self.last_batch == "drop"
        ends = zip(
            self.order.lengths, self.consumed_of_each(consumed), self._global_batches, strict=True
        )
        return sum(num_turns(length - begin, batch, drop=drop) for length, begin, batch in ends)

    def plans(self, epoch: int, consumed: Consumed = 0) -> Iterator[Plan]:
        """Yield the remaining steps of an epoch, in order."""
        counts, batches = list(self.consumed_of_each(consumed)), self._global_batches
        drop = self.last_batch == "drop"
        turns = take_turns(self.order, epoch, counts, batches, drop=drop).tolist()
        for step, (bucket, start) in enumerate(turns):
            first, end = self.order.stretch(bucket)
            batch = first + start, first + start + batches[bucket]
            counts[bucket] = min(start + batches[bucket], end - first)
            variant = self.variants.at(epoch, bucket)
            # The samples that "drop" leaves out are consumed with the last step, so that the epoch is over.
            after = self.order.lengths if step == len(turns) - 1 else tuple(counts)
            share = self._share(batch, (first, end), variant)
            yield Plan(epoch, step, *share, after, self.rank, variant, bucket)

    def consumed_ranges(self, consumed: Consumed) -> list[tuple[int, int]]:
        """Return consumed positions as (start, stop), half open; one pair per bucket."""
        return self.order.had(consumed)

    def consumed_of_each(self, consumed: Consumed) -> tuple[int, ...]:
        """Return the number of consumed positions of each bucket."""
        return (0,) * len(self.batch_sizes) if isinstance(consumed, int) else consumed

    @property
    def _global_batches(self) -> tuple[int, ...]:
        return tuple(size * self.world_size for size in self.batch_sizes)


def total(consumed: Consumed) -> int:
    """Return the number of consumed positions, over all buckets."""
    return consumed if isinstance(consumed, int) else sum(consumed)


def complete_groups(
    share: NDArray[np.int64], group: int, length: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Add to some positions all other positions of their groups; a group is a run of neighbours that may be mixed.

    Groups begin at multiples of `group`; the last one of an epoch may have fewer members.

    Args:
        share: int64 [B], positions, 0 <= position < length.
        group: 1, 2 or 4; 1 returns the positions unchanged.
        length: Number of positions in the epoch.

    Returns:
        int64 [E], all members of the groups, ascending and without duplicates, so that only the last group can be
        incomplete; and int64 [B], the rows of the share among them.
    """
    if group == 1:
        return share, np.arange(len(share))
    members = (share - share % group)[:, None] + np.arange(group)
    positions = np.unique(members[members < length])
    return positions, np.searchsorted(positions, share)


def positions_of(
    order: AnyOrder, epoch: int, indices: Sequence[int], times: int = 1
) -> list[list[int]]:
    """Return the positions at which an epoch has the given samples.

    It checks every position, because an order only maps positions to samples.

    Args:
        order: The order.
        epoch: The epoch.
        indices: Indices of the samples in the dataset.
        times: The search may stop once it has found this many positions of each sample.

    Returns:
        For each sample its positions, ascending; fewer than `times` if the epoch has the sample less often.
    """
    found: list[list[int]] = [[] for _ in indices]
    for start in range(0, len(order), _PIECE):
        positions = np.arange(start, min(start + _PIECE, len(order)), dtype=np.int64)
        there, _ = order.places(epoch, positions)
        for index, of_index in zip(indices, found, strict=True):
            of_index += positions[there == index].tolist()
        if all(len(of_index) >= times for of_index in found):
            break
    return found
