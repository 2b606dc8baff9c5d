"""Read distances in metres, with all of their bits, from the frames of a robot's depth videos, and scale them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dali_pipes.errors import DecodeError
from readers.formats.lerobot.depth import DepthCodes
from readers.video import VideoInfo

Metres = NDArray[np.float32]
"""[height, width]."""


def frame_metres(frame: Any, info: VideoInfo, codes: DepthCodes) -> Metres:
    """Return the distances that the luma of a decoded frame stands for, upright.

    Args:
        frame: An `av.VideoFrame` with the size in `info`.
        info: Metadata with the rotation.
        codes: The meaning of the luma, which is taken as coded, whatever range the video states.

    Raises:
        DecodeError: The frame has no luma of 8 to 16 bits.
    """
    first = frame.format.components[0]
    if not first.is_luma or frame.format.is_rgb or not 8 <= first.bits <= 16:
        raise DecodeError(
            f"meta/info.json says that it shows distances, but its pixels are {frame.format.name}: codes are stored as luma, "
            "such as gray12le"
        )
    order = ">" if frame.format.is_big_endian else "<"
    kind = np.dtype("u1" if first.bits == 8 else f"{order}u2")
    plane = frame.planes[0]
    luma = np.frombuffer(plane, kind).reshape(-1, plane.line_size // kind.itemsize)
    metres = codes.from_codes(luma[: frame.height, : frame.width], first.bits)
    return np.rot90(metres, -info.rotation // 90) if info.rotation else metres


def scale_nearest(metres: Metres, size: tuple[int, int]) -> Metres:
    """Return distances in another height and width: each pixel is the one that covers its centre, and none is mixed."""
    if metres.shape == size:
        return metres
    rows, columns = (
        ((2 * np.arange(after) + 1) * before) // (2 * after)
        for before, after in zip(metres.shape, size, strict=True)
    )
    scaled: Metres = metres.take(rows, axis=0).take(columns, axis=1)
    return scaled
