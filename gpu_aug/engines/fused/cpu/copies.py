"""Compiled functions that make a uint8 result by copying bytes of a uint8 source, without float32 in between.

The bytes are those that `lines.write` would write: a byte of the source keeps its value, and the colours of borders and rectangles
are rounded alike.
"""

from typing import Any

import numpy as np

from gpu_aug.compiled.jit import inner, signed
from gpu_aug.engines.fused.compile.program import Mix, Stage
from gpu_aug.engines.fused.cpu.lines import copy_values
from gpu_aug.engines.fused.cpu.memory import Integer, Real, bytes_at
from gpu_aug.engines.fused.cpu.sampling import WHOLE, View, columns_inside, is_constant

# Plain integers for the compiled functions.
_HOLES, _NO_MIX = int(Stage.HOLES), int(Mix.NO_MIX)
_LARGEST = np.float32(255)  # float32, as a plain number would make the products float64


@inner
def copies_bytes(
    program: Any, image: Integer, view: View, out: Any, codes: Any, values: Any, num: Integer
) -> Any:
    """Return whether `copy_image` can make an image.

    The map may only crop, pad with one colour and reverse the order of rows, and the only stages are rectangles of one colour. Lines
    of float32 are as fast for mirrored lines and for results in planes. Noise takes longer to compute than to convert.
    """
    for stage in range(num):
        if codes[stage] != _HOLES or values[stage, 2] == 1:
            return False
    is_whole = program.kind[image] == WHOLE and program.back[image, 0] == 1.0
    is_alone = program.mix[image] == _NO_MIX and not view.is_float and is_constant(view)
    return is_whole and is_alone and out[1] == 1 and out[3] == 3


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
    back, fill = program.back[image], program.fill[image]
    first, none = np.int64(np.floor(0.5 + back[2])), np.int64(0)  # a plain 0 would be compiled in
    for y in range(height):
        row = np.int64(np.floor(back[4] * (y + 0.5) + back[5]))
        _, start, stop = columns_inside(view, first, np.int64(1), row, width)
        source, count = view.address + row * view.stride + 3 * (first + start), 3 * (stop - start)
        copy_values(
            bytes_at(source, count), count, bytes_at(out[0] + y * out[2] + 3 * start, count)
        )
        if stop - start < width:
            _paint(out, y, y + 1, none, start, fill)
            _paint(out, y, y + 1, stop, width, fill)
    for stage in range(num):
        begin = np.int64(values[stage, 0])
        for hole in range(begin, begin + np.int64(values[stage, 1])):
            top, left, bottom, right = program.holes[image, hole]
            up, down = max(signed(top), none), min(signed(bottom), height)
            low, high = max(signed(left), none), min(signed(right), width)
            _paint(out, up, down, low, high, program.colours[image, hole])


@inner
def _paint(out: Any, top: Any, bottom: Any, left: Any, right: Any, colour: Any) -> None:
    """Paint a rectangle, half open, of the result."""
    red, green, blue = _byte(colour[0]), _byte(colour[1]), _byte(colour[2])
    for y in range(top, bottom):
        line = bytes_at(out[0] + y * out[2] + 3 * left, 3 * (right - left))
        for x in range(right - left):
            line[3 * x], line[3 * x + 1], line[3 * x + 2] = red, green, blue


@inner
def _byte(value: Real) -> Any:
    """Return a value as a byte, rounded as `lines.write` does."""
    return np.uint8(np.int32(min(max(np.rint(value * _LARGEST), np.float32(0)), _LARGEST)))
