"""Sizes that change within an epoch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from readers.buckets import Size, checked_sizes
from readers.permutation import make_keys
from readers.sample import SelectionError

_SIZES = 10  # what the keys are for


@dataclass(frozen=True, init=False)
class MultiScale:
    """Sizes of which another is drawn every so many samples, for training at several scales.

    Which size a sample has is a function of (seed, epoch, its position in the epoch // every), on any number of
    ranks.

    Args:
        sizes: (height, width) each, or one number for squares; all different.
        every: After how many samples, counted over all ranks, another size is drawn: a multiple of the global batch,
            such as 10 * 64 for every 10 steps of 64.

    Raises:
        SelectionError: Something is no size, or `every` no number.

    Example:
        >>> scales = MultiScale([320, 352, (384, 512)], every=10 * 64)
        >>> scales.sizes
        ((320, 320), (352, 352), (384, 512))
        >>> [scales.at(seed=0, epoch=0, position=position) for position in (0, 639, 640, 1280)]
        [1, 1, 1, 0]
    """

    sizes: tuple[Size, ...]
    every: int

    def __init__(self, sizes: Sequence[int | Sequence[int]], *, every: int) -> None:
        given: Any = sizes
        if isinstance(given, list | tuple):
            given = [(one, one) if isinstance(one, int | np.integer) else one for one in given]
        object.__setattr__(self, "sizes", checked_sizes("MultiScale", given))
        if isinstance(every, bool) or not isinstance(every, int | np.integer) or every < 1:
            raise SelectionError(
                f"MultiScale has {every=}; give a number of samples, a multiple of the global batch"
            )
        object.__setattr__(self, "every", int(every))

    def __len__(self) -> int:
        return len(self.sizes)

    def at(self, seed: int, epoch: int, position: int) -> int:
        """Return the number of the size of the sample at a position of an epoch."""
        keys = make_keys(seed, epoch, _SIZES, position // self.every)
        return int(keys[0] % np.uint64(len(self.sizes)))
