"""The weights of torch's 8-bit resize: the source pixels and weights whose sum is each pixel of a resized side."""

import math

import numpy as np
from numpy.typing import NDArray

from gpu_aug.compiled.jit import inner

Bytes = NDArray[np.uint8]
Table = tuple[NDArray[np.int64], NDArray[np.int16], int, int]
"""The first source pixel of each, weights [pixels, count], count, and the weights' binary digits."""

# As torch: weights of 16 bits with a sign, and sums of 32 bits that hold 255 times their total.
_MOST_BITS = 22
_LIMIT = 1 << 15


@inner
def most_taps(length: int, size: int) -> int:
    """Return the largest number of source pixels that a pixel of the resized side can depend on."""
    return min(math.ceil(max(length / size, 1.0)) * 2 + 1, length)


@inner
def table_bytes(length: int, size: int) -> int:
    """Return the largest number of bytes of scratch memory that `weight_table` can need, a multiple of 64."""
    return (size * 8 + size * most_taps(length, size) * 10 + 127) // 64 * 64


@inner
def weight_table(
    length: int,
    span: tuple[float, float],
    size: int,
    first: int,
    last: int,
    antialias: bool,
    scratch: Bytes,
) -> Table:
    """Return the weights of the pixels ``first`` to ``last`` (exclusive) of a resized side; see `Table`.

    Every pixel has the same count of weights, some of which may be 0; all are for pixels inside the source.

    Args:
        length: Length of the source's side, in pixels.
        span: Start and length of the part of the side that is resized, in pixels; (0.0, length) is the full side.
        size: Length of the resized side, in pixels.
        first: Index of the first pixel of the resized side that is needed.
        last: Index after the last pixel that is needed.
        antialias: Whether pixels are averaged if the side shrinks.
        scratch: Memory of at least `table_bytes` bytes, which holds the table.
    """
    origin, scale = span[0], span[1] / size
    num_pixels = last - first
    count = 1
    for pixel in range(first, last):
        start, stop = _taps(origin + scale * (pixel + 0.5), scale, length, antialias)
        count = max(count, stop - start)
    at, used = num_pixels * 8, num_pixels * 8 + num_pixels * count * 8
    starts = scratch[:at].view(np.int64)
    unrounded = scratch[at:used].view(np.float64).reshape(num_pixels, count)
    weights = scratch[used : used + num_pixels * count * 2].view(np.int16)
    unrounded[:] = 0.0
    largest = 0.0
    for pixel in range(size):
        start, stop = _taps(origin + scale * (pixel + 0.5), scale, length, antialias)
        row = unrounded[:0, 0]
        offset = 0
        if first <= pixel < last:
            starts[pixel - first] = min(start, length - count)
            offset = start - starts[pixel - first]
            row = unrounded[pixel - first]
        centre = origin + scale * (pixel + 0.5)
        weight = _weights(centre, scale, length, start, stop, antialias, row[offset:])
        largest = max(largest, weight)
    bits = _num_bits(largest)
    for index in range(num_pixels * count):
        weights[index] = int(0.5 + unrounded[index // count, index % count] * (1 << bits))
    return starts, weights.reshape(num_pixels, count), count, bits


@inner
def _taps(centre: float, scale: float, length: int, antialias: bool) -> tuple[int, int]:
    """Return the range (first, last; last exclusive) of source pixels that a pixel of the resized side depends on."""
    if antialias:
        support = max(scale, 1.0)
        return max(int(centre - support + 0.5), 0), min(int(centre + support + 0.5), length)
    left = min(math.floor(centre - 0.5), length - 1)
    return max(left, 0), min(left + 2, length)


@inner
def _weights(
    centre: float,
    scale: float,
    length: int,
    start: int,
    stop: int,
    antialias: bool,
    row: NDArray[np.float64],
) -> float:
    """Write the weights of a pixel to ``row``, unless that is empty, and return the largest weight."""
    if not antialias:
        return _two_weights(centre - 0.5, length, row)
    inverse = 1.0 / scale if scale >= 1.0 else 1.0
    total, largest = 0.0, 0.0
    for pixel in range(start, stop):
        distance = abs((pixel - centre + 0.5) * inverse)
        weight = 1.0 - distance if distance < 1.0 else 0.0
        total += weight
        largest = max(largest, weight)
        if row.size:
            row[pixel - start] = weight
    if total == 0.0:
        return largest
    if row.size:
        for index in range(stop - start):
            row[index] /= total
    return largest / total


@inner
def _two_weights(centre: float, length: int, row: NDArray[np.float64]) -> float:
    """Write the weights of the two pixels around a point to ``row``, unless that is empty; return the largest weight.

    Weights of pixels outside the side are added to the nearest pixel inside.
    """
    left = min(math.floor(centre), length - 1)
    share = min(max(centre - left, 0.0), 1.0)
    near, far = 1.0 - share, 1.0 - (1.0 - share)
    if left < 0 or left >= length - 1:
        if row.size:
            row[0] = near + far
        return near + far
    if row.size:
        row[0], row[1] = near, far
    return max(near, far)


@inner
def _num_bits(largest: float) -> int:
    """Return the largest number of binary digits with which the largest weight fits into a signed 16-bit integer."""
    for bits in range(_MOST_BITS):
        if int(0.5 + largest * (1 << (bits + 1))) >= _LIMIT:
            return bits
    return _MOST_BITS
