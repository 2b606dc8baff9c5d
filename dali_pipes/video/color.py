"""Pixels of decoded frames: luma and chroma to upright RGB, only where they are wanted.

What a pixel is: the matrix and range that the video names, BT.601 and limited range where it names none (as FFmpeg
does); each sample of chroma counts for all pixels that share it; one rounding, to the nearest.

FFmpeg's own conversion (swscale, which torchcodec uses, too) differs by up to 3 of 255 (4 for more than 8 bits), since
it rounds down, several times. Where chroma is halved down (4:2:0) and a picture has more than 8 bits or an odd height,
FFmpeg interpolates it from row to row, and the same decoder gives repeated chroma otherwise: on photographs the mean
difference is then 1.4 to 1.6, 99 % are within 4 and the largest is 39; where saturated colours meet it is up to 200.
Interlaced frames are converted as they are coded, both fields in one picture; nothing is deinterlaced.
"""

import re
import threading
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dali_pipes.errors import DecodeError
from dali_pipes.video.codec import stored_size
from dali_pipes.video.rotation import Rect, stored_rect
from dali_pipes.video.ycgco import convert_ycgco
from readers.video import VideoInfo
from readers.video.codecs.color_matrices import YCGCO
from readers.video.info import UNSPECIFIED_MATRIX

_BT601 = 5

LUMA_WEIGHTS = {
    1: (0.2126, 0.0722),  # BT.709
    4: (0.30, 0.11),  # FCC
    5: (0.299, 0.114),  # BT.601
    6: (0.299, 0.114),
    7: (0.212, 0.087),  # SMPTE 240M
    9: (0.2627, 0.0593),  # BT.2020
    10: (0.2627, 0.0593),
}
"""By the numbers of ITU-T H.273 that name a matrix: what red and blue contribute to luma."""

_SHIFTS = {"420": (1, 1), "422": (0, 1), "440": (1, 0), "444": (0, 0)}
_PLANAR = re.compile(r"yuv(j|a)?(420|422|440|444)p(?:(9|10|12|14|16)le)?")

# Each thread's memory for the conversion, and FFmpeg's converter.
_KEPT = threading.local()


class Layout(NamedTuple):
    """How a pixel format stores luma and chroma.

    Attributes:
        depth: Bits of a sample.
        shifts: Chroma subsampling as powers of two, vertical and horizontal.
        is_full: Whether the format is of full range by its name.
    """

    depth: int
    shifts: tuple[int, int]
    is_full: bool


@cache
def layout_of(pixel_format: str) -> Layout | None:
    """Describe a pixel format that is converted here; None for one that is left to FFmpeg."""
    match = _PLANAR.fullmatch(pixel_format)
    if match is None:
        return None
    return Layout(int(match[3] or 8), _SHIFTS[match[2]], match[1] == "j")


def to_rgb(frame: Any, info: VideoInfo, part: Rect | None = None) -> NDArray[np.uint8]:
    """Convert a part of a frame.

    Args:
        frame: An `av.VideoFrame` of the size that `info` says.
        info: Says how colours are made, and how the frame is turned.
        part: Part of the upright frame; None is all of it.

    Returns:
        uint8 [height, width, 3], RGB, upright, of any strides. Each thread's result may be overwritten by its next call.

    Raises:
        DecodeError: FFmpeg does not convert it.
    """
    upright = part or (0, 0, info.height, info.width)
    stored = stored_rect(upright, stored_size(info), info.rotation)
    layout = layout_of(frame.format.name)
    rgb: NDArray[np.uint8] | None = None
    if layout is not None and info.matrix == YCGCO:
        is_full = layout.is_full or info.full_range
        rgb = convert_ycgco(frame, layout.depth, layout.shifts, stored, full_range=is_full)
    elif layout is not None:
        rgb = _convert(frame, info, layout, stored)
    if rgb is None:
        top, left, height, width = stored
        rgb = _convert_by_ffmpeg(frame, info)[top : top + height, left : left + width]
    return np.rot90(rgb, -info.rotation // 90) if info.rotation else rgb


def _convert(frame: Any, info: VideoInfo, layout: Layout, part: Rect) -> NDArray[np.uint8] | None:
    """Convert by our own kernel; None where that cannot be."""
    from dali_pipes.video.yuv import STEP, write_rgb

    matrix = _BT601 if info.matrix == UNSPECIFIED_MATRIX else info.matrix
    factors = _factors(matrix, layout.depth, layout.is_full or info.full_range)
    top, left, height, width = part
    wide = layout.depth > 8
    limit = frame.width + frame.width % 2  # FFmpeg's rows are longer than those of odd width
    luma, blue, red, *_ = frame.planes
    if factors is None or limit < STEP or luma.line_size < limit << wide:
        return None
    if blue.line_size != red.line_size or blue.line_size < limit >> layout.shifts[1] << wide:
        return None
    begin = min(left - left % 2, limit - STEP)
    end = max(left + width + (left + width) % 2, begin + STEP)
    out = _memory(height * (end - begin) * 3).reshape(height, end - begin, 3)
    write_rgb(
        (luma.buffer_ptr, blue.buffer_ptr, red.buffer_ptr),
        (luma.line_size, blue.line_size),
        layout.shifts,
        wide,
        (top, begin, height, end - begin),
        factors,
        out,
    )
    return out[:, left - begin : left - begin + width]


@cache
def _factors(matrix: int, depth: int, full_range: bool) -> NDArray[np.int32] | None:
    """The factors of yuv.FACTORS; None for a matrix that is none of luma and colour differences."""
    from dali_pipes.video.yuv import FRACTION

    if matrix not in LUMA_WEIGHTS:
        return None
    red, blue = LUMA_WEIGHTS[matrix]
    green = 1 - red - blue
    step = 1 << depth - 8
    black, luma_range, chroma_range = 16 * step, 219 * step, 224 * step
    if full_range:
        black, luma_range, chroma_range = 0, 256 * step - 1, 256 * step - 1
    unit = 255 * (1 << FRACTION)
    luma = unit / luma_range
    red_v, blue_u = ((1 - weight) * 2 * unit / chroma_range for weight in (red, blue))
    green_u, green_v = -blue_u * blue / green, -red_v * red / green
    half = (1 << FRACTION - 1) - luma * black
    middle = 128 * step
    constants = (
        half - middle * red_v,
        half - middle * (green_u + green_v),
        half - middle * blue_u,
    )
    return np.rint([luma, *constants, red_v, green_u, green_v, blue_u]).astype(np.int32)


def _convert_by_ffmpeg(frame: Any, info: VideoInfo) -> NDArray[np.uint8]:
    from av.video.reformatter import VideoReformatter

    if not hasattr(_KEPT, "reformatter"):
        _KEPT.reformatter = VideoReformatter()
    matrix = _BT601 if info.matrix == UNSPECIFIED_MATRIX else info.matrix
    try:
        rgb = _KEPT.reformatter.reformat(frame, format="rgb24", src_colorspace=matrix)
    except Exception as error:  # whatever it is, it is of this frame
        raise DecodeError(
            f"FFmpeg converts no {frame.format.name} of matrix {matrix} to RGB: {error}"
        ) from error
    return np.asarray(rgb.to_ndarray(), np.uint8)


def _memory(num_bytes: int) -> NDArray[np.uint8]:
    """Memory that this thread gets again and again: new memory would be cleared by the system each time."""
    kept: NDArray[np.uint8] | None = getattr(_KEPT, "memory", None)
    if kept is None or kept.size < num_bytes:
        kept = _KEPT.memory = np.empty(num_bytes, np.uint8)
    return kept[:num_bytes]
