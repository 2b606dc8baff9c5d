"""Compiled functions that make a uint8 result by copying bytes of a uint8 source, without float32 in between.

The bytes are those that `lines.write` would write: a byte of the source keeps its value, and the colours of borders and rectangles
are rounded alike.
"""

from typing import Any

import numpy as np

from gpu_aug.compiled.jit import inner, signed
from gpu_aug.engines.fused.compile.program import Mix, Stage
from gpu_aug.engines.fused.cpu.memory import Integer, Real, bytes_at
from gpu_aug.engines.fused.cpu.sampling import WHOLE, View, columns_inside, fold_index, is_constant

# Plain integers for the compiled functions.
_HOLES, _NO_MIX = int(Stage.HOLES), int(Mix.NO_MIX)
_LARGEST = np.float32(255)  # float32, as a plain number would make the products float64


@inner
def copies_bytes(
    program: Any, image: Integer, view: View, out: Any, codes: Any, values: Any, num: Integer
) -> Any:
    """Return whether `copy_image` can make an image.

    The map may only crop, pad and reverse the order of rows, and the only stages are rectangles of one colour. Lines of float32
    are as fast for mirrored lines and for results in planes. Noise takes longer to compute than to convert.
    """
    if program.kind[image] != WHOLE or program.mix[image] != _NO_MIX or view.is_float:
        return False
    for stage in range(num):
        if codes[stage] != _HOLES or values[stage, 2] == 1:
            return False
    return program.back[image, 0] == 1.0 and out[1] == 1 and out[3] == 3


@inner
def copy_image(
    program: Any, image: Integer, view: View, out: Any, values: Any, num: Integer
) -> None:
    """Make an image for which `copies_bytes` returns True.

    Args:
        program: The Program.
        image: Index of the image in the program.
        view: The part of the source that is seen.
        out: The result, int64 [4]; see ``describe_outs``.
        values: Arguments of the stages, float32 [num, NUM_VALUES].
        num: Number of stages, all HOLES.
    """
    height, width = np.int64(program.size[image, 0]), np.int64(program.size[image, 1])
    back, none = program.back[image], np.int64(0)  # a plain 0 would be compiled in
    first = np.int64(np.floor(back[0] * 0.5 + back[2]))
    for y in range(height):
        row = np.int64(np.floor(back[4] * (y + 0.5) + back[5]))
        row, start, stop = columns_inside(view, first, np.int64(1), row, width)
        source, line = view.address + row * view.stride + 3 * first, out[0] + y * out[2]
        _copy(source + 3 * start, line + 3 * start, 3 * (stop - start))
        _copy_border(view, first, source, line, none, start)
        _copy_border(view, first, source, line, stop, width)
    for stage in range(num):
        begin = np.int64(values[stage, 0])
        for hole in range(begin, begin + np.int64(values[stage, 1])):
            top, left, bottom, right = program.holes[image, hole]
            colour = program.colours[image, hole]
            low: Integer = max(signed(left), 0)
            high: Integer = min(signed(right), width)
            end: Integer = min(signed(bottom), height)
            for y in range(max(signed(top), 0), end):
                line = out[0] + y * out[2] + 3 * low
                _paint(line, high - low, colour[0], colour[1], colour[2])


@inner
def _copy_border(
    view: View, first: Integer, source: Integer, line: Integer, start: Integer, stop: Integer
) -> None:
    """Write pixels ``start`` to ``stop`` (exclusive) of a line, which lie outside the view; pixel 0 shows column ``first``."""
    if is_constant(view):
        _paint(line + 3 * start, stop - start, view.red, view.green, view.blue)
        return
    for x in range(start, stop):
        column = fold_index(first + x, view.width, view.border)
        _copy(source + 3 * (column - first), line + 3 * x, np.int64(3))


@inner
def _copy(source: Integer, target: Integer, count: Integer) -> None:
    """Copy ``count`` bytes from one address to another."""
    read, written = bytes_at(source, count), bytes_at(target, count)
    for byte in range(count):
        written[byte] = read[byte]


@inner
def _paint(target: Integer, count: Integer, red: Real, green: Real, blue: Real) -> None:
    """Paint ``count`` neighbouring pixels."""
    r, g, b = _byte(red), _byte(green), _byte(blue)
    written = bytes_at(target, 3 * count)
    for x in range(count):
        written[3 * x] = r
        written[3 * x + 1] = g
        written[3 * x + 2] = b


@inner
def _byte(value: Real) -> Any:
    """Return a value as a byte, rounded as `lines.write` does."""
    return np.uint8(np.int32(min(max(np.rint(value * _LARGEST), np.float32(0)), _LARGEST)))
