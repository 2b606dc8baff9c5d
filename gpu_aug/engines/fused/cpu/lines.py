"""Compiled functions that copy one line of pixels between interleaved memory and three channels of float32.

A line of W pixels is the address of float32 [3, W].
"""

from typing import Any

import numpy as np

from gpu_aug.compiled.jit import inner
from gpu_aug.engines.fused.cpu.memory import (
    Integer,
    bytes_at,
    floats_at,
    half_bits,
    ints_at,
    shorts_at,
)

UINT8, FLOAT16, BFLOAT16, FLOAT32 = range(4)
"""Types of memory."""

_LARGEST = np.float32(255)  # of uint8; float32, as a plain number would make the quotients float64


@inner
def read_bytes(
    address: Integer, count: Integer, line: Integer, width: Integer, backwards: bool
) -> None:
    """Copy ``count`` neighbouring uint8 pixels to a line, divided by 255.

    Args:
        address: Address of the first pixel in memory.
        count: Number of pixels.
        line: Address of the first of these pixels in the line.
        width: Number of pixels of the line.
        backwards: Whether the pixels are written in reverse order.
    """
    values = bytes_at(address, 3 * count)
    red = floats_at(line, count)
    green = floats_at(line + 4 * width, count)
    blue = floats_at(line + 8 * width, count)
    if backwards:
        for x in range(count):
            pixel = np.uint64(count - 1 - x)
            red[pixel] = values[3 * x]
            green[pixel] = values[3 * x + 1]
            blue[pixel] = values[3 * x + 2]
    else:
        for x in range(count):
            red[x] = values[3 * x]
            green[x] = values[3 * x + 1]
            blue[x] = values[3 * x + 2]
    for x in range(count):
        red[x] /= _LARGEST
        green[x] /= _LARGEST
        blue[x] /= _LARGEST


@inner
def read_floats(
    address: Integer, count: Integer, line: Integer, width: Integer, backwards: bool
) -> None:
    """Copy ``count`` neighbouring float32 pixels to a line without scaling; arguments as for ``read_bytes``."""
    values = floats_at(address, 3 * count)
    red = floats_at(line, count)
    green = floats_at(line + 4 * width, count)
    blue = floats_at(line + 8 * width, count)
    first, step = (count - 1, -1) if backwards else (0, 1)
    for x in range(count):
        pixel = np.uint64(first + step * x)
        red[pixel] = values[3 * x]
        green[pixel] = values[3 * x + 1]
        blue[pixel] = values[3 * x + 2]


@inner
def write(
    address: Integer,
    dtype: Integer,
    across: Integer,
    along: Integer,
    line: Integer,
    width: Integer,
    spare: Integer,
) -> None:
    """Convert a line to another dtype and copy it to the result.

    Args:
        address: Address of the line's first value in the result.
        dtype: Dtype of the result: UINT8, FLOAT16, BFLOAT16 or FLOAT32.
        across: Stride of channels in the result, in values.
        along: Stride of pixels in the result, in values.
        line: Address of the line.
        width: Number of pixels.
        spare: Address of scratch memory, uint16 [3, width].
    """
    is_packed = along == 3 and across == 1
    if dtype == FLOAT32:
        if is_packed:
            _interleave(floats_at(line, 3 * width), width, floats_at(address, 3 * width))
            return
        for channel in range(3):
            values = floats_at(line + 4 * channel * width, width)
            _spread(values, width, floats_at(address + 4 * channel * across, width * along), along)
    elif dtype == UINT8:
        _to_bytes(line, 3 * width, spare)
        if is_packed:
            _interleave(bytes_at(spare, 3 * width), width, bytes_at(address, 3 * width))
            return
        for channel in range(3):
            levels = bytes_at(spare + channel * width, width)
            _spread(levels, width, bytes_at(address + channel * across, width * along), along)
    else:
        if dtype == BFLOAT16:
            _to_bfloats(line, 3 * width, spare)
        else:
            _to_halves(line, 3 * width, spare)
        if is_packed:
            _interleave(shorts_at(spare, 3 * width), width, shorts_at(address, 3 * width))
            return
        for channel in range(3):
            bits = shorts_at(spare + 2 * channel * width, width)
            _spread(bits, width, shorts_at(address + 2 * channel * across, width * along), along)


@inner
def _interleave(values: Any, width: Integer, out: Any) -> None:
    for x in range(width):
        out[3 * x] = values[x]
        out[3 * x + 1] = values[x + width]
        out[3 * x + 2] = values[x + 2 * width]


@inner
def _spread(values: Any, width: Integer, out: Any, along: Integer) -> None:
    if along == 1:
        for x in range(width):
            out[x] = values[x]
    else:
        for x in range(width):
            out[x * along] = values[x]


@inner
def _to_bytes(line: Integer, count: Integer, spare: Integer) -> None:
    values, out = floats_at(line, count), bytes_at(spare, count)
    for x in range(count):
        whole = np.rint(values[x] * _LARGEST)
        out[x] = np.uint8(np.int32(min(max(whole, np.float32(0)), _LARGEST)))


@inner
def _to_bfloats(line: Integer, count: Integer, spare: Integer) -> None:
    bits, out = ints_at(line, count), shorts_at(spare, count)
    for x in range(count):
        value = np.uint32(bits[x])
        rounded = value + np.uint32(0x7FFF) + ((value >> np.uint32(16)) & np.uint32(1))
        is_nan = (value & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
        out[x] = np.uint16(0x7FC0) if is_nan else np.uint16(rounded >> np.uint32(16))


@inner
def _to_halves(line: Integer, count: Integer, spare: Integer) -> None:
    values, out = floats_at(line, count), shorts_at(spare, count)
    for x in range(count):
        out[x] = half_bits(values[x])
