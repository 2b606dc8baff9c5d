"""YCgCo, in which screens are recorded now and then, to RGB; FFmpeg does not convert it.

Source: ITU-T H.273, 8.3, matrix coefficients 8: Y is half of green and a quarter of red and of blue, Cg half of green less
these quarters, Co half of red less half of blue; in limited range red, green and blue go from 16 to 235 before that.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dali_pipes.video.rotation import Rect


def convert_ycgco(
    frame: Any, depth: int, shifts: tuple[int, int], part: Rect, *, full_range: bool
) -> NDArray[np.uint8]:
    """Convert a part of a frame, rounded to the nearest; samples of chroma count for all pixels that share them.

    Args:
        frame: An `av.VideoFrame` of planes of Y, Cg and Co.
        depth: Bits of a sample.
        shifts: Chroma subsampling as powers of two, vertical and horizontal.
        part: Part of the frame as it is stored.
        full_range: Whether samples use all of their bits.

    Returns:
        uint8 [height, width, 3].
    """
    step = 1 << depth - 8
    y, green, orange = (
        _samples(plane, depth, part, shifts if number else (0, 0)).astype(np.float32)
        for number, plane in enumerate(frame.planes[:3])
    )
    green -= 128 * step
    orange -= 128 * step
    black, unit = (0, 255 / (256 * step - 1)) if full_range else (16 * step, 255 / (219 * step))
    others = y - green
    rgb = np.stack([others + orange, y + green, others - orange], -1)
    return ((rgb - black) * np.float32(unit) + 0.5).clip(0, 255).astype(np.uint8)


def _samples(plane: Any, depth: int, part: Rect, shifts: tuple[int, int]) -> NDArray[Any]:
    """The samples of a plane, one for each pixel of a part."""
    kind = np.dtype(np.uint8 if depth == 8 else "<u2")
    rows = np.frombuffer(plane, kind).reshape(-1, plane.line_size // kind.itemsize)
    top, left, height, width = part
    down = np.arange(top, top + height) >> shifts[0]
    across = np.arange(left, left + width) >> shifts[1]
    samples: NDArray[Any] = rows[down[:, None], across]
    return samples
