"""Read distances in metres, with all of their bits, from frames of videos and pictures of a robot's depth cameras."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dali_pipes.decode.stored import read_numbers
from dali_pipes.errors import DecodeError
from readers.formats.lerobot.depth import DepthCodes
from readers.sample import Payload
from readers.video import VideoInfo

Metres = NDArray[np.float32]
"""[height, width]."""


def read_metres(data: Payload, size: tuple[int, int], codes: DepthCodes) -> Metres:
    """Decode a picture of distances: PNG of 16 bits, TIFF of integers or floats.

    Args:
        data: The encoded bytes.
        size: Height and width that meta/info.json states.
        codes: States the unit.

    Raises:
        DecodeError: The bytes do not decode, or have several channels or another size.
    """
    numbers = read_numbers(data, 1)[..., 0]
    if numbers.shape != size:
        got = f"{numbers.shape[0]}x{numbers.shape[1]}"
        raise DecodeError(f"decodes to {got}, but meta/info.json says {size[0]}x{size[1]}")
    return codes.from_numbers(numbers)


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
