"""A compiled function that paints rectangles onto one line of pixels; see ``program.Stage.HOLES``."""

from typing import Any

import numpy as np

from gpu_aug.compiled.jit import inner, signed
from gpu_aug.engines.fused.cpu.memory import Integer, floats_at

# The lower and the upper word of a product of two words.
_MASK = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)


@inner
def paint(
    line: Integer,
    width: Integer,
    y: Integer,
    height: Integer,
    hole: Any,
    colour: Any,
    is_noise: bool,
    key: Any,
) -> None:
    """Paint the pixels of line ``y`` that lie in a rectangle.

    Args:
        line: Address of the line, float32 [3, width].
        width: Width of the image, in pixels.
        y: Index of the line in the image.
        height: Height of the image, in pixels.
        hole: The rectangle (top, left, bottom, right), int32 [4].
        colour: Colour of the rectangle, float32 [3].
        is_noise: Whether uniform noise is painted instead of the colour.
        key: Key of the noise, uint32 [2].
    """
    if not hole[0] <= y < hole[2]:
        return
    left, right = max(signed(hole[1]), 0), min(signed(hole[3]), width)
    for channel in range(3):
        if is_noise:
            first = (channel * height + y) * width
            _noise(line + 4 * channel * width, left, right, first, key)
        else:
            values, value = floats_at(line + 4 * channel * width, width), colour[channel]
            for x in range(left, right):
                values[x] = value


@inner
def _noise(line: Integer, left: Integer, right: Integer, first: Integer, key: Any) -> None:
    """Write uniform noise to columns ``left`` to ``right``: column x gets the element ``first`` + x of the noise field."""
    values = floats_at(line, right)
    k0, k1 = np.uint64(key[0]), np.uint64(key[1])
    known = np.int64(-1)
    words = (_MASK, _MASK, _MASK, _MASK)
    for x in range(left, right):
        index = first + x
        if index >> 2 != known:
            known = index >> 2
            words = _philox(np.uint64(known), k0, k1)
        values[x] = np.float32(words[index & 3] >> np.uint64(8)) * np.float32(2.0**-24)


@inner
def _philox(counter: Any, k0: Any, k1: Any) -> Any:
    """Return the four Philox words of the counter (``counter``, 0, 0, 0); see ``gpu_aug.random_fields``."""
    c0, c1, c2, c3 = counter, np.uint64(0), np.uint64(0), np.uint64(0)
    for _ in range(10):
        first = c0 * np.uint64(0xD2511F53)
        second = c2 * np.uint64(0xCD9E8D57)
        c0 = (second >> _SHIFT) ^ c1 ^ k0
        c2 = (first >> _SHIFT) ^ c3 ^ k1
        c1 = second & _MASK
        c3 = first & _MASK
        k0 = (k0 + np.uint64(0x9E3779B9)) & _MASK
        k1 = (k1 + np.uint64(0xBB67AE85)) & _MASK
    return c0, c1, c2, c3
