"""Which source pixels a crop or a resize reads, as integer indices and weights that every engine uses."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.int64]


def padded_pixels(start: int, length: int, size: int, padding_mode: str) -> Pixels:
    """Return the index of the source pixel that each pixel of a crop along one axis shows; -1 stands for the fill.

    Args:
        start: Index of the crop's first pixel; it may lie outside the image.
        length: Length of the crop, in pixels.
        size: Length of the image along this axis, in pixels.
        padding_mode: Padding mode; see Spatial.
    """
    pixels = np.arange(start, start + length)
    if padding_mode == "constant":
        return np.where((pixels >= 0) & (pixels < size), pixels, -1)
    return fold(pixels, size, padding_mode)


def fold(pixels: Pixels, length: int, padding_mode: str) -> Pixels:
    """Return pixel indices, some of them outside a line of ``length``, each replaced by the index that padding shows there.

    For "constant" this is the index of the nearest pixel, as for "edge".
    """
    if padding_mode == "reflect":
        period = max(2 * (length - 1), 1)
        pixels = pixels % period
        return np.where(pixels < length, pixels, period - pixels)
    if padding_mode == "symmetric":
        pixels = pixels % (2 * length)
        return np.where(pixels < length, pixels, 2 * length - 1 - pixels)
    return np.clip(pixels, 0, length - 1)


def nearest_pixels(size: int, resized: int, *, floor: bool) -> Pixels:
    """Return the index of the input pixel that each of ``resized`` output pixels shows, along an axis of ``size`` pixels.

    It is the pixel in which the centre of the output pixel falls, or its top-left corner if ``floor``.
    """
    new = np.arange(resized)
    return new * size // resized if floor else (2 * new + 1) * size // (2 * resized)


@dataclass(frozen=True, slots=True)
class Taps:
    """The input pixels and weights whose weighted sum is each of n output pixels along one axis.

    Attributes:
        pixels: Indices of input pixels, int64 [n, K].
        weights: Weights of these pixels, float32 [n, K].
    """

    pixels: Pixels
    weights: NDArray[np.float32]


def area_taps(shape: Sequence[int], resized: Sequence[int]) -> tuple[Taps, Taps]:
    """Return the taps of OpenCV's INTER_AREA for float images, for the rows and for the columns.

    Source: OpenCV, modules/imgproc/src/resize.cpp. If neither side grows, weights are the covered shares of pixels; otherwise both
    sides use a variant of bilinear interpolation.
    """
    shrinks = all(new <= old for new, old in zip(resized, shape, strict=True))
    rows, columns = (
        (_covered if shrinks else _between)(old, new)
        for old, new in zip(shape, resized, strict=True)
    )
    return rows, columns


def _covered(size: int, resized: int) -> Taps:
    scale = 1 / (resized / size)  # with OpenCV's rounding
    low = np.arange(resized) * scale
    high = low + scale
    width = np.minimum(scale, size - low)
    first = np.ceil(low).astype(np.int64)
    last = np.minimum(np.floor(high).astype(np.int64), size - 1)
    first = np.minimum(first, last)
    count = int((last - first).max()) + 2
    pixels = first[:, None] - 1 + np.arange(count)
    weights = np.where((pixels >= first[:, None]) & (pixels < last[:, None]), 1 / width[:, None], 0)
    # A part of a pixel below 1/1000 is left out, as OpenCV does.
    before, after = first - low, np.minimum(np.minimum(high - last, 1), width)
    weights[:, 0] = np.where(before > 1e-3, before / width, 0)
    rows = np.arange(resized)
    weights[rows, last - first + 1] = np.where(high - last > 1e-3, after / width, 0)
    return Taps(np.clip(pixels, 0, size - 1), weights.astype(np.float32))


def _between(size: int, resized: int) -> Taps:
    inverse = resized / size
    scale = 1 / inverse  # OpenCV's own rounding decides what is whole
    new = np.arange(resized)
    low = np.floor(new * scale).astype(np.int64)
    part = ((new + 1) - (low + 1) * inverse).astype(np.float32)
    part = np.where(part <= 0, 0, part - np.floor(part)).astype(np.float32)
    part[low >= size - 1] = 0
    pixels = np.stack([low, low + 1], axis=1)
    return Taps(np.clip(pixels, 0, size - 1), np.stack([1 - part, part], axis=1))
