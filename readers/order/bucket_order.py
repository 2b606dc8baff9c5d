"""The order of samples within buckets, and the order of the steps of all buckets, computed without I/O or state."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from readers.order.buckets import Buckets
from readers.order.permutation import make_keys, permute
from readers.order.shuffle import Shuffle, checked_positions
from readers.sample import SelectionError

_INNER, _TURNS = 8, 9  # purposes of keys, so that other uses of a seed get others
_PAGE = 512  # samples with common bucket counts: few enough to search, many enough that the counts need little memory
_BITS = 40  # precision of the moment in an epoch at which a step comes


@dataclass(frozen=True, eq=False)
class BucketOrder:
    """The order of samples in each epoch, grouped by bucket.

    The first positions of an epoch belong to the first bucket, the next ones to the second bucket, and so on. Within its
    bucket, each sample has one position, which differs from epoch to epoch. `take_turns` returns the order in which the
    steps of all buckets come.

    Attributes:
        buckets: The sizes of the buckets.
        codes: uint8 [length], the index of the bucket of every sample.
        seed: Seed of the shuffle, >= 0.
        shuffle: "global", which permutes the samples of each bucket; or "none", which keeps their order and lets the steps of
            one bucket follow those of the bucket before.
        lengths: Number of samples in each bucket.
    """

    buckets: Buckets
    codes: NDArray[np.uint8]
    seed: int = 0
    shuffle: Shuffle = "global"
    lengths: tuple[int, ...] = field(init=False)
    _counts: NDArray[np.int64] = field(init=False, repr=False)
    _starts: NDArray[np.int64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.shuffle not in ("global", "none"):
            raise SelectionError(
                f'shuffle="{self.shuffle}" is not possible with buckets, whose samples lie anywhere in the data; use '
                f'"global" or "none"'
            )
        # How many samples of each bucket lie before each page, int64 [pages + 1, buckets].
        pages = -(-len(self.codes) // _PAGE)
        counts = np.zeros((pages + 1, len(self.buckets)), np.int64)
        for page in range(pages):
            piece = self.codes[page * _PAGE : (page + 1) * _PAGE]
            counts[page + 1] = np.bincount(piece, minlength=len(self.buckets))
        np.cumsum(counts, axis=0, out=counts)
        lengths = counts[-1]
        object.__setattr__(self, "_counts", np.ascontiguousarray(counts.T))
        object.__setattr__(self, "lengths", tuple(lengths.tolist()))
        object.__setattr__(self, "_starts", np.cumsum(lengths) - lengths)

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def name(self) -> str:
        """Text with the shuffle and the sizes of the buckets; a hash stands for many sizes."""
        sizes = " ".join(f"{height}x{width}" for height, width in self.buckets.sizes)
        if len(sizes) > 160:  # a state stays small
            sizes = f"{len(self.buckets)} sizes {hashlib.sha256(sizes.encode()).hexdigest()[:16]}"
        return f"{self.shuffle} in buckets {sizes}"

    def stretch(self, bucket: int) -> tuple[int, int]:
        """Return the first position of a bucket, and the position after its last."""
        start = int(self._starts[bucket])
        return start, start + self.lengths[bucket]

    def had(self, consumed: int | Sequence[int]) -> list[tuple[int, int]]:
        """Return, for each bucket, the first of its consumed positions and the position after the last.

        Args:
            consumed: Number of consumed samples in each bucket; or the integer 0, which means none in any bucket.
        """
        counts = [0] * len(self.lengths) if isinstance(consumed, int) else consumed
        starts = self._starts.tolist()
        return [(start, start + count) for start, count in zip(starts, counts, strict=True)]

    def places(
        self, epoch: int, positions: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the dataset index at each position, and zeros, as no index comes twice; see `AnyOrder.places`.

        Raises:
            IndexError: A position is outside the epoch.
        """
        positions = checked_positions(positions, len(self))
        if not positions.size:
            return positions.copy(), positions.copy()
        buckets = np.searchsorted(self._starts, positions, "right") - 1
        numbers = positions - self._starts[buckets]
        if self.shuffle != "none":
            lengths = np.array(self.lengths, np.int64)[buckets]
            numbers = permute(numbers, lengths, make_keys(self.seed, epoch, _INNER), buckets)
        indices = np.empty_like(positions)
        for bucket in set(buckets.tolist()):
            rows = buckets == bucket
            indices[rows] = self._select(bucket, numbers[rows])
        return indices, np.zeros_like(indices)

    def _select(self, bucket: int, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the dataset indices of samples of a bucket, int64 [n].

        Args:
            bucket: Index of the bucket.
            numbers: int64 [n], places of the samples in the bucket, in the order of the dataset.
        """
        before = self._counts[bucket]
        pages = np.searchsorted(before, numbers, "right") - 1
        within = numbers - before[pages]
        places = pages[:, None] * _PAGE + np.arange(_PAGE)
        codes = self.codes[np.minimum(places, len(self.codes) - 1)]
        counted = np.cumsum(codes == bucket, axis=1, dtype=np.int16)
        found: NDArray[np.int64] = pages * _PAGE + np.argmax(counted > within[:, None], axis=1)
        return found


def take_turns(
    order: BucketOrder,
    epoch: int,
    consumed: Sequence[int],
    batches: Sequence[int],
    *,
    drop: bool,
) -> NDArray[np.int64]:
    """Return the remaining steps of an epoch, in order, with the bucket and the first sample of each.

    The steps of every bucket are spread evenly over the epoch. The moment of a step, from 0 to 1, is the share of the
    bucket's samples up to the end of the step, minus a random fraction of the step. So the moment depends only on the seed,
    the epoch, the bucket, and the last sample and size of the step, and the remaining steps keep their order on resume if
    the batch sizes are unchanged.

    Args:
        order: The order of the samples in buckets.
        epoch: Number of the epoch, >= 0.
        consumed: For each bucket, the number of samples that all ranks together have consumed.
        batches: For each bucket, the number of samples in a step over all ranks.
        drop: Whether incomplete steps are left out.

    Returns:
        int64 [steps, 2]: the index of the bucket, and the place of the step's first sample in the bucket's order.
    """
    found = []
    for bucket, (length, had, batch) in enumerate(
        zip(order.lengths, consumed, batches, strict=True)
    ):
        count = num_turns(length - had, batch, drop=drop)
        starts = had + batch * np.arange(count, dtype=np.int64)
        ends = np.minimum(starts + batch, length)
        moments = np.full(count, bucket, np.int64)
        if order.shuffle != "none" and count:
            keys = make_keys(order.seed, epoch, _TURNS)
            salts = np.full(count, bucket, np.int64)
            parts = permute(ends & 0xFFFFF, 1 << 20, keys, salts) / float(1 << 20)
            late = (ends - parts * (ends - starts)) / length
            moments = (late * float(1 << _BITS)).astype(np.int64)
        found.append(np.stack([np.full(count, bucket, np.int64), starts, moments], axis=1))
    turns = np.concatenate(found)
    by_moment = np.lexsort((turns[:, 1], turns[:, 0], turns[:, 2]))
    return turns[by_moment, :2]


def num_turns(left: int, batch: int, *, drop: bool) -> int:
    """Return the number of steps that remain in one bucket.

    Args:
        left: Number of remaining samples of the bucket.
        batch: Number of samples in a step.
        drop: Whether an incomplete step is left out.
    """
    return left // batch if drop else -(-left // batch)
