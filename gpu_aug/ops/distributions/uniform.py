"""Functions that turn uniform numbers in [0, 1) into the distributions that operations draw from."""

import math

import numpy as np
from numpy.typing import NDArray

Range = tuple[float, float]
"""(smallest, largest)"""

Uniforms = NDArray[np.float64]
Sizes = NDArray[np.int64]


def between(u: Uniforms, ends: tuple[float, ...]) -> Uniforms:
    """Return numbers that are uniform in ``ends``, (low, high)."""
    return ends[0] + u * (ends[1] - ends[0])


def log_between(u: Uniforms, ends: tuple[float, ...]) -> Uniforms:
    """Return numbers whose logarithms are uniform between those of ``ends``, (low, high), both above 0."""
    return np.exp(between(u, (math.log(ends[0]), math.log(ends[1]))))


def whole_below(u: Uniforms, limits: Sizes | int) -> Sizes:
    """Return uniform integers in [0, limit)."""
    return (u * limits).astype(np.int64)


def whole_between(u: Uniforms, ends: tuple[int, ...]) -> Sizes:
    """Return uniform integers in [low, high], both ends included."""
    return ends[0] + whole_below(u, ends[1] - ends[0] + 1)


def pick(u: Uniforms, weights: NDArray[np.float64]) -> Sizes:
    """Return random indices into ``weights``, whose sum is 1: each index is drawn with the probability ``weights[index]``."""
    last = np.flatnonzero(weights)[-1]  # the sum may fall short of 1 by rounding
    chosen: Sizes = np.minimum(np.searchsorted(np.cumsum(weights), u, side="right"), last)
    return chosen


def orders(u: Uniforms) -> Sizes:
    """Return random orders of n items, int64 [B, n], made from uniform numbers [B, n] by sorting them."""
    order: Sizes = np.argsort(u, axis=1, kind="stable")
    return order
