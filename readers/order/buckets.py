"""Buckets of image sizes, and the choice of a bucket for an image."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from readers.sample import SelectionError

Size = tuple[int, int]
"""Height and width."""

MOST_BUCKETS = 255  # the bucket of a sample is kept in one byte


@dataclass(frozen=True, init=False)
class Buckets:
    """A list of image sizes, one per bucket; an image goes into the bucket with the nearest aspect ratio.

    If several buckets have that aspect ratio, the image goes into the largest that has no more pixels than the image, or
    into the smallest if all have more. Distances between aspect ratios are logarithmic: 2:1 is as far from 1:1 as 1:2 is.

    Args:
        sizes: (height, width) of each bucket in pixels, each at least 1, all different.

    Raises:
        SelectionError: There are no sizes or more than 255, or an entry is not a size.

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
        """Return buckets of various aspect ratios, with at most `area` pixels each and sides that are multiples of a number.

        For each height, the largest width within the area is taken, and the transposed size is added. If there are more than
        `count` sizes, those nearest to a square are kept.

        Source: the buckets of NovelAI, "Improvements on Stable Diffusion", 2022.

        Args:
            area: Largest number of pixels of a size, such as 512 * 512.
            multiple_of: Number by which both sides are divisible.
            count: Largest number of sizes, >= 1.
            largest_ratio: Largest ratio of the longer side to the shorter one, >= 1.

        Raises:
            SelectionError: An argument is out of range, or no size fulfils the conditions.
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
            kept.pop()  # portrait and landscape get the same sizes
        if not kept:
            raise SelectionError(
                f"Buckets.aspect finds no square of {area} pixels with sides that are multiples of {multiple_of}; "
                f"give count=2 or more, or a smaller multiple_of"
            )
        return cls(sorted(kept, key=lambda size: (size[1] / size[0], size)))

    def __len__(self) -> int:
        return len(self.sizes)

    def of(self, sizes: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return the index of the bucket of each image, uint8 [n].

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
        # distinct[left] <= ratio <= distinct[right]: their geometric mean is the boundary.
        nearest = np.where(ratio * ratio <= distinct[left] * distinct[right], left, right)
        chosen = firsts[nearest]
        lasts = np.append(firsts[1:], len(order))
        for _ in range(int(np.diff(np.append(firsts, len(order))).max()) - 1):
            following = np.minimum(chosen + 1, len(order) - 1)
            larger = (chosen + 1 < lasts[nearest]) & (areas[order[following]] <= area)
            chosen = np.where(larger, following, chosen)
        return order[chosen].astype(np.uint8)

    def batch_sizes(self, pixels: int) -> dict[Size, int]:
        """Return a batch size for each size of image, so that every batch has about `pixels` pixels; for a Loader's `batch_size`.

        Args:
            pixels: Largest number of pixels in a rank's batch, such as 16 * 512 * 512; a batch has at least one image.

        Example:
            >>> Buckets([(512, 512), (256, 256)]).batch_sizes(pixels=4 * 512 * 512)
            {(512, 512): 4, (256, 256): 16}
        """
        if isinstance(pixels, bool) or not isinstance(pixels, int | np.integer) or pixels < 1:
            raise SelectionError(f"batch_sizes has {pixels=}; give a whole number of pixels from 1")
        return {size: max(1, int(pixels) // (size[0] * size[1])) for size in self.sizes}


def checked_sizes(owner: str, sizes: Sequence[Sequence[int]]) -> tuple[Size, ...]:
    """Return sizes as a tuple of (height, width) pairs of plain integers.

    Args:
        owner: Name of the caller's class or function, for errors.
        sizes: The sizes to check.

    Raises:
        SelectionError: There are no sizes, an entry is not a size, or a size occurs twice.
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


def batches_of(buckets: Buckets, batch_size: int | Mapping[Size, int]) -> tuple[int, ...]:
    """Return the batch size of a rank for each bucket.

    Args:
        buckets: The buckets.
        batch_size: One batch size for all buckets, or a dict from the size of each bucket to its batch size.

    Raises:
        SelectionError: The keys are not the sizes of the buckets, or a batch size is not an integer of 1 or more.
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
