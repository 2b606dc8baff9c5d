"""Compiled functions that copy one line of pixels between interleaved memory and three channels of float32.

A line of W pixels is the address of float32 [3, W].
"""

from typing import Any

import numpy as np

from gpu_aug.compiled.jit import inlined, inner
from gpu_aug.engines.fused.cpu.memory import (
    Integer,
    Real,
    bytes_at,
    floats_at,
    half_bits,
    ints_at,
    shorts_at,
    stream,
)

UINT8, FLOAT16, BFLOAT16, FLOAT32 = range(4)
"""Types of memory."""

_LARGEST = np.float32(255)  # of uint8; float32, as a plain number would make the quotients float64
_PER_256, _REST = np.float32(1 / 256), np.float32(1 / 255 - 1 / 256)  # of `unit`


@inlined
def unit(byte: Real) -> Real:
    """Return the quotient of a byte, given as float32, and 255, correctly rounded as that of a division, in a third of its time.

    The quotient is byte / 256 + byte * (1 / 255 - 1 / 256): the first summand is exact.
    """
    return byte * _PER_256 + byte * _REST


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
        red[x], green[x], blue[x] = unit(red[x]), unit(green[x]), unit(blue[x])


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
    is_streamed: bool,
) -> None:
    """Convert a line to another dtype and copy it to the result.

    Args:
        address: Address of the line's first value in the result.
        dtype: Dtype of the result: UINT8, FLOAT16, BFLOAT16 or FLOAT32.
        across: Stride of channels in the result, in values.
        along: Stride of pixels in the result, in values.
        line: Address of the line.
        width: Number of pixels.
        spare: Address of scratch memory, 18 * width bytes.
        is_streamed: Whether the line goes past the cache; see ``stream``.
    """
    item, values = 2, spare
    if dtype == FLOAT32:
        item, values = 4, line
    elif dtype == UINT8:
        item = 1
        to_bytes(line, 3 * width, spare)
    elif dtype == BFLOAT16:
        _to_bfloats(line, 3 * width, spare)
    else:
        _to_halves(line, 3 * width, spare)
    size = item * width
    if along == 3 and across == 1:
        target = spare + 6 * width if is_streamed else address
        if item == 4:
            _interleave(floats_at(values, 3 * width), width, floats_at(target, 3 * width))
        elif item == 2:
            _interleave(shorts_at(values, 3 * width), width, shorts_at(target, 3 * width))
        else:
            _interleave(bytes_at(values, 3 * width), width, bytes_at(target, 3 * width))
        if is_streamed:
            stream(target, address, 3 * size)
        return
    for channel in range(3):
        source, target = values + channel * size, address + channel * across * item
        if is_streamed:
            stream(source, target, size)
        elif along == 1:
            copy_values(bytes_at(source, size), size, bytes_at(target, size))
        elif item == 4:
            _spread(floats_at(source, width), width, floats_at(target, width * along), along)
        elif item == 2:
            _spread(shorts_at(source, width), width, shorts_at(target, width * along), along)
        else:
            _spread(bytes_at(source, width), width, bytes_at(target, width * along), along)


@inner
def _interleave(values: Any, width: Integer, out: Any) -> None:
    for x in range(width):
        out[3 * x] = values[x]
        out[3 * x + 1] = values[x + width]
        out[3 * x + 2] = values[x + 2 * width]


@inner
def copy_values(values: Any, size: Integer, out: Any) -> None:
    """Copy ``size`` numbers from one array to another."""
    for x in range(size):
        out[x] = values[x]


@inner
def _spread(values: Any, width: Integer, out: Any, along: Integer) -> None:
    for x in range(width):
        out[x * along] = values[x]


@inner
def to_bytes(line: Integer, count: Integer, spare: Integer) -> None:
    """Write the values at the address ``line`` as bytes to the address ``spare``."""
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
