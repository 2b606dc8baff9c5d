"""Buckets: samples sorted by the shape of their images, and the order and the steps of an epoch of them."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from readers.order import Shuffle, checked_positions
from readers.permutation import make_keys, permute
from readers.sample import SelectionError

Size = tuple[int, int]
"""Height and width."""

MOST_BUCKETS = 255
_INNER, _TURNS = 8, 9  # what keys are for
_PAGE = 512  # samples that are counted together
_BITS = 40  # of the moment in an epoch at which a step comes


@dataclass(frozen=True, init=False)
class Buckets:
    """Sizes of images, and which of them suits an image: the one with the nearest aspect ratio.

    Of sizes with one aspect ratio the largest is taken that has no more pixels than the image, or else the smallest.
    Nearest is meant in ratios: 2:1 is as far from 1:1 as 1:2 is.

    Args:
        sizes: (height, width) in pixels, each at least 1, all different.

    Raises:
        SelectionError: No sizes, too many, or something that is no size.

    Example:
        >>> buckets = Buckets([(512, 512), (448, 576), (576, 448)])
        >>> buckets.sizes[buckets.of(np.array([[1080, 1920]]))[0]]
        (448, 576)
        >>> Buckets.aspect(area=512 * 512, multiple_of=64, count=5).sizes
        ((640, 384), (576, 448), (512, 512), (448, 576), (384, 640))
    """

    sizes: tuple[Size, ...]

    def __init__(self, sizes: Sequence[Sequence[int]]) -> None:
        object.__setattr__(self, "sizes", checked_sizes("Buckets", sizes))
        if len(self.sizes) > MOST_BUCKETS:
            raise SelectionError(
                f"Buckets got {len(self.sizes)} sizes, more than {MOST_BUCKETS}; give fewer"
            )

    @classmethod
    def aspect(
        cls, area: int, *, multiple_of: int = 64, count: int = 9, largest_ratio: float = 4.0
    ) -> Self:
        """Make sizes of at most one area whose sides are multiples of a number.

        For each height the largest width is taken that keeps to the area, and the transposed size with it; if that
        gives more than `count` sizes, those nearest to a square are kept.

        Source: the buckets of NovelAI, "Improvements on Stable Diffusion", 2022.

        Args:
            area: The most pixels of a size, such as 512 * 512.
            multiple_of: What both sides are divisible by.
            count: How many sizes at most, from 1.
            largest_ratio: The longer side is at most so many times the shorter one, from 1.

        Raises:
            SelectionError: A number that cannot be, or no size is so.
        """
        for name, value in (("area", area), ("multiple_of", multiple_of), ("count", count)):
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise SelectionError(
                    f"Buckets.aspect has {name}={value!r}; give a whole number from 1"
                )
        if not isinstance(largest_ratio, int | float) or not largest_ratio >= 1:
            raise SelectionError(
                f"Buckets.aspect has largest_ratio={largest_ratio!r}; give a number from 1"
            )
        unit, found = int(multiple_of), set[Size]()
        for height in range(unit, int((area * largest_ratio) ** 0.5) + 1, unit):
            width = area // (height * unit) * unit
            found |= {(height, width), (width, height)} if width else set()
        fitting = [size for size in found if max(size) <= largest_ratio * min(size)]
        if not fitting:
            raise SelectionError(
                f"Buckets.aspect finds no size of {area} pixels with sides that are multiples of {multiple_of}; give "
                f"a larger area or a smaller multiple_of"
            )
        fitting.sort(key=lambda size: (max(size) / min(size), abs(size[0] * size[1] - area), size))
        kept = fitting[: int(count)]
        if kept[-1][::-1] not in kept:
            kept.pop()  # upright images are treated as those that lie
        if not kept:
            raise SelectionError(
                f"Buckets.aspect finds no square of {area} pixels with sides that are multiples of {multiple_of}; "
                f"give count=2 or more, or a smaller multiple_of"
            )
        return cls(sorted(kept, key=lambda size: (size[1] / size[0], size)))

    def __len__(self) -> int:
        return len(self.sizes)

    def of(self, sizes: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return the number of the bucket of each image, uint8 [n].

        Args:
            sizes: int64 [n, 2], height and width of upright images, each at least 1.
        """
        own = np.array(self.sizes, np.float64)
        # Whole numbers up to 2**53 and one division each: the same on every machine.
        ratios, areas = own[:, 1] / own[:, 0], own[:, 0] * own[:, 1]
        order = np.lexsort((areas, ratios))
        distinct, firsts = np.unique(ratios[order], return_index=True)
        given = sizes.astype(np.float64)
        ratio, area = given[:, 1] / given[:, 0], given[:, 0] * given[:, 1]
        right = np.clip(np.searchsorted(distinct, ratio), 1, max(len(distinct) - 1, 1))
        right = np.minimum(right, len(distinct) - 1)
        left = np.maximum(right - 1, 0)
        # distinct[left] <= ratio <= distinct[right]: the geometric mean parts them.
        nearest = np.where(ratio * ratio <= distinct[left] * distinct[right], left, right)
        chosen = firsts[nearest]
        lasts = np.append(firsts[1:], len(order))
        for _ in range(int(np.diff(np.append(firsts, len(order))).max()) - 1):
            following = np.minimum(chosen + 1, len(order) - 1)
            larger = (chosen + 1 < lasts[nearest]) & (areas[order[following]] <= area)
            chosen = np.where(larger, following, chosen)
        return order[chosen].astype(np.uint8)

    def batch_sizes(self, pixels: int) -> dict[Size, int]:
        """Return how many images of each size have so many pixels together, at least 1: a Loader's `batch_size`.

        Args:
            pixels: Of a rank's step, such as 16 * 512 * 512.

        Example:
            >>> Buckets([(512, 512), (256, 256)]).batch_sizes(pixels=4 * 512 * 512)
            {(512, 512): 4, (256, 256): 16}
        """
        if isinstance(pixels, bool) or not isinstance(pixels, int | np.integer) or pixels < 1:
            raise SelectionError(f"batch_sizes has {pixels=}; give a whole number of pixels from 1")
        return {size: max(1, int(pixels) // (size[0] * size[1])) for size in self.sizes}


def checked_sizes(owner: str, sizes: Sequence[Sequence[int]]) -> tuple[Size, ...]:
    """Return sizes as pairs of plain numbers.

    Raises:
        SelectionError: There are none, or one is no size, or stands there twice.
    """
    if not isinstance(sizes, list | tuple) or not sizes:
        raise SelectionError(f"{owner} got {sizes!r}; give a list of sizes (height, width)")
    for size in sizes:
        pair = isinstance(size, list | tuple) and len(size) == 2
        if not pair or not all(
            type(side) is not bool and isinstance(side, int | np.integer) and side >= 1
            for side in size
        ):
            raise SelectionError(
                f"{owner} got the size {size!r}; give (height, width), two whole numbers from 1"
            )
    pairs = tuple((int(height), int(width)) for height, width in sizes)
    if len(set(pairs)) < len(pairs):
        twice = next(pair for pair in pairs if pairs.count(pair) > 1)
        raise SelectionError(f"{owner} got the size {twice} twice; leave one out")
    return pairs


@dataclass(frozen=True, eq=False)
class BucketOrder:
    """The order of samples that are in buckets: the positions of an epoch are those of one bucket after the other.

    Within its bucket every sample stands at one position, in each epoch at another. Which bucket's turn it is says
    `take_turns`.

    Attributes:
        buckets: The sizes.
        codes: uint8 [length], the bucket of every sample; all that is kept of a sample.
        seed: >= 0.
        shuffle: "global", or "none": in a bucket the samples keep their order, and one bucket follows the other.
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
        """Return the positions that are consumed of each bucket, start and stop (half open); 0 is none."""
        counts = [0] * len(self.lengths) if isinstance(consumed, int) else consumed
        starts = self._starts.tolist()
        return [(start, start + count) for start, count in zip(starts, counts, strict=True)]

    def places(
        self, epoch: int, positions: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """See `readers.order.AnyOrder.places`; no index comes twice.

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
        """Return where in the dataset the samples of a bucket with these numbers stand."""
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
    """Return the steps that are left of an epoch: the bucket and the first of its samples that each takes.

    Every bucket is spread evenly over the epoch: a step comes when as much of the epoch is over as it and those before
    it are of their bucket, less a random part of itself. So a step's moment follows from (seed, epoch, bucket, its last
    sample, its size) alone, and those that are left come in the order that they had, if the batches are the same.

    Args:
        order: The buckets.
        epoch: At least 0.
        consumed: Samples of each bucket that all ranks together have had.
        batches: Samples of a step over all ranks, for each bucket.
        drop: Whether a step that is not full is left out.

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
    """Return how many steps so many samples of a bucket make."""
    return left // batch if drop else -(-left // batch)


def batches_of(buckets: Buckets, batch_size: int | Mapping[Size, int]) -> tuple[int, ...]:
    """Return the samples of a rank's step in each bucket.

    Raises:
        SelectionError: Sizes and buckets are not the same, or a number is none.
    """
    if not isinstance(batch_size, Mapping):
        return (int(batch_size),) * len(buckets)
    missing = [size for size in buckets.sizes if size not in batch_size]
    unknown = [size for size in batch_size if size not in buckets.sizes]
    if missing or unknown:
        what = f"none for {missing[0]}" if missing else f"one for {unknown[0]}, which is no bucket"
        raise SelectionError(
            f"batch_size has {what}; give a number for each size of the buckets, as buckets.batch_sizes(pixels=...) "
            f"returns them, or one number for all"
        )
    for size, count in batch_size.items():
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
            raise SelectionError(
                f"batch_size={count!r} for {size} is not allowed; give an integer of 1 or more"
            )
    return tuple(int(batch_size[size]) for size in buckets.sizes)
