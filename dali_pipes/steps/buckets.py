"""The steps of an epoch whose samples are in buckets."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dali_pipes.steps.schedule import Consumed, LastBatch, Plan, Steps, whole_groups
from dali_pipes.steps.variants import Variants
from readers import part
from readers.bucket_order import BucketOrder, num_turns, take_turns


@dataclass(frozen=True, slots=True)
class BucketSteps:
    """The steps of an epoch whose samples are in buckets: each takes the next samples of one bucket.

    All ranks take their steps in the same order; see `readers.buckets.take_turns`. What was said of Steps holds
    within each bucket.

    Attributes:
        order: The buckets.
        batch_sizes: Samples per rank and step, of each bucket.
        rank: This rank, 0 <= rank < world_size.
        world_size: Number of ranks.
        last_batch: What becomes of a last global batch of a bucket that is not full; see Steps.
        variants: The recipes of the run.
    """

    order: BucketOrder
    batch_sizes: tuple[int, ...]
    rank: int
    world_size: int
    last_batch: LastBatch
    variants: Variants

    @property
    def length(self) -> int:
        """Positions of an epoch."""
        return len(self.order)

    @property
    def batch_size(self) -> int:
        """The largest batch of all buckets."""
        return max(self.batch_sizes)

    @property
    def group(self) -> int:
        """How many neighbouring positions of the order are mixed: 1, 2 or 4."""
        return self.variants.group

    @property
    def left_out(self) -> int:
        """Samples that an epoch leaves out."""
        if self.last_batch != "drop":
            return 0
        pairs = zip(self.order.lengths, self._global_batches, strict=True)
        return sum(length % batch for length, batch in pairs)

    @property
    def largest(self) -> int:
        """The most positions that a plan can have."""
        return self.batch_size + 2 * (self.group - 1)

    def largest_of(self, variant: int) -> int:
        """The most positions that a plan of a variant can have."""
        sizes = [self.batch_sizes[size] for size in self.variants.sizes_of(variant)]
        return max(sizes) + 2 * (self.group - 1)

    def num_steps(self, consumed: Consumed = 0) -> int:
        """Steps that are left in an epoch of which some positions are consumed."""
        drop = self.last_batch == "drop"
        return sum(
            num_turns(length - had, batch, drop=drop)
            for length, had, batch in zip(
                self.order.lengths, self._of_each(consumed), self._global_batches, strict=True
            )
        )

    def plans(self, epoch: int, consumed: Consumed = 0) -> Iterator[Plan]:
        """The steps that are left in an epoch, in order."""
        had = list(self._of_each(consumed))
        drop = self.last_batch == "drop"
        turns = take_turns(self.order, epoch, had, self._global_batches, drop=drop)
        for step, (bucket, start) in enumerate(turns.tolist()):
            first, end = self.order.stretch(bucket)
            full = first + start + self._global_batches[bucket]
            stop = min(full, end)
            variant = self.variants.at(epoch, bucket)
            low, high = part(
                first + start,
                full if self.last_batch == "pad" else stop,
                self.rank,
                self.world_size,
            )
            share = np.arange(low, high, dtype=np.int64)
            within = (share - first) % (end - first)
            group = self.variants.views[variant].group
            positions, rows = whole_groups(within, group, end - first)
            had[bucket] = stop - first
            # What "drop" leaves out is consumed with the last step, so that the epoch is over.
            after = self.order.lengths if step == len(turns) - 1 else tuple(had)
            valid = share < end
            yield Plan(
                epoch, step, first + positions, rows, valid, after, self.rank, variant, bucket
            )

    @property
    def _global_batches(self) -> tuple[int, ...]:
        return tuple(size * self.world_size for size in self.batch_sizes)

    def _of_each(self, consumed: Consumed) -> tuple[int, ...]:
        return (0,) * len(self.batch_sizes) if isinstance(consumed, int) else consumed


AnySteps = Steps | BucketSteps
