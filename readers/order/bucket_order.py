"""The order of samples in buckets, and of the steps of all buckets: pure arithmetic, without I/O or state."""

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
_PAGE = 512  # samples that are counted together: a search looks at one page, and counts take little memory
_BITS = 40  # precision of the moment in an epoch at which a step comes


@dataclass(frozen=True, eq=False)
class BucketOrder:
    """The order of samples in buckets: the positions of an epoch are those of the first bucket, the second, and so on.

    Each sample has one position in its bucket, which differs from epoch to epoch. `take_turns` returns the order of the
    steps of all buckets.

    Attributes:
        buckets: The sizes.
        codes: uint8 [length], the bucket of every sample.
        seed: >= 0.
        shuffle: "global", or "none": the samples of a bucket keep their order, and one bucket follows the other.
        lengths: Samples in each bucket.
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
        """The shuffle and the sizes."""
        sizes = " ".join(f"{height}x{width}" for height, width in self.buckets.sizes)
        if len(sizes) > 160:  # a state stays small
            sizes = f"{len(self.buckets)} sizes {hashlib.sha256(sizes.encode()).hexdigest()[:16]}"
        return f"{self.shuffle} in buckets {sizes}"

    def stretch(self, bucket: int) -> tuple[int, int]:
        """Return the positions of a bucket, start and stop (half open)."""
        start = int(self._starts[bucket])
        return start, start + self.lengths[bucket]

    def had(self, consumed: int | Sequence[int]) -> list[tuple[int, int]]:
        """Return the consumed positions of each bucket, start and stop (half open); `consumed` 0 means none."""
        counts = [0] * len(self.lengths) if isinstance(consumed, int) else consumed
        starts = self._starts.tolist()
        return [(start, start + count) for start, count in zip(starts, counts, strict=True)]

    def places(
        self, epoch: int, positions: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the positions of indices in an epoch; no index comes twice.

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
        """Return the dataset indices of the samples with these numbers in a bucket."""
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
    """Return the remaining steps of an epoch: the bucket of each, and the first of the samples that it takes.

    The steps of every bucket are spread evenly over the epoch. A step comes at the moment (0 to 1) that is the share of the
    bucket's samples up to its end, less a random part of the step. So the moment depends on (seed, epoch, bucket, last
    sample, size) only, and the remaining steps keep their order if the batch sizes are the same.

    Args:
        order: The buckets.
        epoch: At least 0.
        consumed: Number of samples of each bucket that all ranks together have consumed.
        batches: Samples of a step over all ranks, for each bucket.
        drop: Whether incomplete steps are left out.

    Returns:
        int64 [steps, 2].
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
    """Return the number of steps of a number of samples of one bucket."""
    return left // batch if drop else -(-left // batch)
