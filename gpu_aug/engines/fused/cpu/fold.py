"""A compiled function that merges the linear stages (SCALE and MATRIX) of one image, without changing results but for rounding.

Two consecutive linear stages become one in two cases: if no value can reach a limit of the first, which interval arithmetic
decides; or if the second scales each channel by itself, which moves the limits of the first.
"""

from typing import Any

import numpy as np

from gpu_aug.compiled.jit import inner
from gpu_aug.engines.fused.compile.program import Stage
from gpu_aug.engines.fused.cpu.memory import Integer, Real

_SLACK = np.float32(1e-6)
"""How far rounding may carry a value over a limit, which then does not count."""


@inner
def fold(codes: Any, values: Any, first: Integer, last: Integer, low: Real, high: Real) -> Any:
    """Merge the linear stages among ``first`` to ``last`` (exclusive) in place; merged ones become NOTHING.

    Args:
        codes: Codes of the stages, int32 [S], values of Stage.
        values: Arguments of the stages, float32 [S, NUM_VALUES].
        first: Index of the first stage.
        last: Index after the last stage.
        low: Smallest value that any channel can have before these stages.
        high: Largest value that any channel can have before these stages.

    Returns:
        The smallest and the largest value that any channel can have after these stages.
    """
    before = np.int64(-1)  # the linear stage that the next one follows directly
    for stage in range(first, last):
        code, v = codes[stage], values[stage]
        if code == Stage.NOTHING:
            continue
        if code not in (Stage.SCALE, Stage.MATRIX):
            before = np.int64(-1)
            if code == Stage.HOLES or (code != Stage.HUE and not (low >= 0 and high <= 1)):
                low, high = np.float32(-np.inf), np.float32(np.inf)
            continue
        low, high = _limit(v, low, high)
        if before >= 0 and _is_free(values[before]):
            _multiply(codes, values, before, stage)
        elif (
            before >= 0
            and code == Stage.SCALE
            and _is_free(v)
            and v[0] > 0
            and v[5] > 0
            and v[10] > 0
        ):
            _rescale(codes, values, before, stage)
        before = np.int64(stage)
    return low, high


@inner
def _limit(v: Any, low: Real, high: Real) -> Any:
    """Remove the limits of a linear stage that no value reaches; return the smallest and largest possible result."""
    least, most = np.float32(np.inf), np.float32(-np.inf)
    for channel in range(3):
        bottom = top = v[4 * channel + 3]
        for index in range(4 * channel, 4 * channel + 3):
            if v[index] > 0:
                bottom, top = bottom + v[index] * low, top + v[index] * high
            elif v[index] < 0:
                bottom, top = bottom + v[index] * high, top + v[index] * low
        if bottom >= v[12 + channel] - _SLACK:
            v[12 + channel] = np.float32(-np.inf)
        if top <= v[15 + channel] + _SLACK:
            v[15 + channel] = np.float32(np.inf)
        least = min(least, max(bottom, v[12 + channel]))
        most = max(most, min(top, v[15 + channel]))
    return least, most


@inner
def _is_free(v: Any) -> Any:
    """Return whether a linear stage has no limits."""
    for channel in range(3):
        if v[12 + channel] != -np.inf or v[15 + channel] != np.inf:
            return False
    return True


@inner
def _multiply(codes: Any, values: Any, one: Integer, two: Integer) -> None:
    """Merge stage ``one``, which has no limits, into the later stage ``two``."""
    a, b = values[one], values[two]
    for row in range(0, 12, 4):
        x, y, z, shift = b[row], b[row + 1], b[row + 2], b[row + 3]
        for column in range(4):
            b[row + column] = x * a[column] + y * a[4 + column] + z * a[8 + column]
        b[row + 3] += shift
    codes[two] = max(codes[one], codes[two])
    codes[one] = Stage.NOTHING


@inner
def _rescale(codes: Any, values: Any, one: Integer, two: Integer) -> None:
    """Merge stage ``one`` into the later stage ``two``, which scales each channel by a positive factor and has no limits."""
    a, b = values[one], values[two]
    for channel in range(3):
        factor, shift = b[5 * channel], b[4 * channel + 3]
        for index in range(4 * channel, 4 * channel + 4):
            b[index] = a[index] * factor
        b[4 * channel + 3] += shift
        b[12 + channel] = a[12 + channel] * factor + shift
        b[15 + channel] = a[15 + channel] * factor + shift
    codes[two] = codes[one]
    codes[one] = Stage.NOTHING
