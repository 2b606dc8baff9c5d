"""How many operations a fused pass cannot do without: counted by hand from the kernels, for each image's program.

Counted are float32 instructions of one pixel, a product and a sum in one counting once, as GPUs have it; a float64
one counts twice, which is what it costs on those that are good at them. Addresses, conversions, loads and
stores are left out, and so are rectangles that are painted and means that are read: the true number is higher.
"""

import numpy as np
from numpy.typing import NDArray

from gpu_aug.engines.fused.compile.program import Border, Kind, Mix, Program, Stage

_UNIT = 9  # three channels: a product and two corrections
_POINT_OF_A_TILE = (
    15  # of an axis: the point 2, the pixel before it 4, within the view 2, part 1, cover 6
)
_FAR_POINT = 2 * 15  # of an axis, float64: the same of any point
_MAP = 2 * 6  # float64: row and column of a matrix
_DIVISION = 2 * 4  # float64: depth, and two divisions by it
_FRAME = 2 * 16 + 7  # float64: cover and nearest point of two axes; the fill
_FOUR_PIXELS = 22  # weights 6, three channels of two pairs 12, their sum 3, one cover of two
_BORDERS = {Border.CONSTANT: 7, Border.CONSTANT_TWICE: 6}

_LIMITS = 6
STAGES = {
    Stage.NOTHING: 0,
    Stage.SCALE: 3,
    Stage.MATRIX: 9,
    Stage.CONTRAST: 3 + _LIMITS,
    Stage.HUE: 37,
    Stage.GAMMA: 18,
    Stage.SOLARIZE: 9,
    Stage.TABLE: 18,
    Stage.ROUND: 27,
    Stage.FLOOR: 21,
    Stage.GRAY_MAX: 2,
    Stage.GRAY_MIDDLE: 6,
    Stage.HOLES: 0,
}
"""For three channels; SCALE and MATRIX without their limits."""

_GRAY = 4  # and its sum


def operations_of(program: Program, *, is_float: bool = False) -> float:
    """Instructions for all images of a program, on the pixels that they have.

    Args:
        program: Of one pass.
        is_float: Whether its sources are float32, which need no division by 255.
    """
    total = 0.0
    for image in range(len(program.codes)):
        loading = _of_loading(program, image, is_float=is_float)
        stages = _of_stages(program.codes[image], program.values[image])
        per_pixel = loading + sum(stages)
        for place in np.flatnonzero(program.codes[image] == Stage.CONTRAST):
            # The mean needs all pixels as they are before it: they are made twice.
            per_pixel += loading + sum(stages[:place]) + _GRAY
        height, width = program.size[image].tolist()
        total += per_pixel * height * width
    return total


def _of_loading(program: Program, image: int, *, is_float: bool) -> int:
    kind, border = Kind(int(program.kind[image])), Border(int(program.border[image]))
    unit = 0 if is_float else _UNIT
    is_projective = bool((program.back[image, 6:] != (0, 0, 1)).any())
    mixing = {Mix.NO_MIX: 0, Mix.BLEND: unit + 6, Mix.CUT: unit + 3}[Mix(int(program.mix[image]))]
    if kind == Kind.WHOLE:
        return unit + mixing
    mapping = _MAP + _DIVISION * is_projective
    if kind == Kind.NEAREST:
        return mapping + unit + mixing
    is_cut = bool(program.frame[image, 0])
    if is_cut:
        mapping += _MAP + _DIVISION + _FRAME
    is_near = not (is_projective or is_cut or border in (Border.REFLECT, Border.SYMMETRIC))
    points = 2 * _POINT_OF_A_TILE if is_near else mapping + 2 * _FAR_POINT
    return points + _FOUR_PIXELS + _BORDERS.get(border, 0) + mixing


def _of_stages(codes: NDArray[np.int32], values: NDArray[np.float32]) -> list[int]:
    """Of each stage of one image."""
    found = []
    for code, arguments in zip(codes.tolist(), values, strict=True):
        has_limits = code in (Stage.SCALE, Stage.MATRIX) and np.isfinite(arguments[12:18]).any()
        found.append(STAGES[Stage(code)] + _LIMITS * bool(has_limits))
    return found
