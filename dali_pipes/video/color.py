"""Convert the needed part of decoded frames from luma and chroma to upright RGB.

A pixel is defined by the matrix and range that the video states, or by BT.601 and limited range if it states none (as
in FFmpeg). Each chroma sample applies to all pixels that share it, and the result is rounded once, to the nearest
integer.

FFmpeg's own conversion (swscale, which torchcodec also uses) differs by up to 3 of 255 (4 for more than 8 bits),
because it rounds down several times. If chroma is halved vertically (4:2:0) and a picture has more than 8 bits or an
odd height, FFmpeg interpolates chroma from row to row: on photographs the mean difference is then 1.4 to 1.6, 99 % are
within 4 and the largest is 39; at edges of saturated colours it is up to 200. Interlaced frames are converted as coded,
with both fields in one picture; nothing is deinterlaced.
"""

import re
import threading
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dali_pipes.errors import DecodeError
from dali_pipes.video.codec import stored_size
from readers.video import VideoInfo
from readers.video.codecs.color_matrices import YCGCO
from readers.video.info import UNSPECIFIED_MATRIX

Rect = tuple[int, int, int, int]
"""Top, left, height and width."""

BT601 = 5
"""The matrix for videos that state none; number of ITU-T H.273."""

LUMA_WEIGHTS = {
    1: (0.2126, 0.0722),  # BT.709
    4: (0.30, 0.11),  # FCC
    BT601: (0.299, 0.114),
    6: (0.299, 0.114),
    7: (0.212, 0.087),  # SMPTE 240M
    9: (0.2627, 0.0593),  # BT.2020
    10: (0.2627, 0.0593),
}
"""Weights of red and blue in luma, by the matrix numbers of ITU-T H.273."""

_SHIFTS = {"420": (1, 1), "422": (0, 1), "440": (1, 0), "444": (0, 0)}
"""Chroma subsampling as powers of two, vertical and horizontal, by its name in pixel formats."""
_PLANAR = re.compile(r"yuv(j|a)?(420|422|440|444)p(?:(9|10|12|14|16)le)?")

# Reused memory and FFmpeg converter of each thread: the system would zero new memory for every frame, and the converter keeps
# its tables from frame to frame.
_THREAD = threading.local()


class Layout(NamedTuple):
    """The layout of luma and chroma in a pixel format.

    Attributes:
        depth: Bits per sample.
        shifts: Chroma subsampling as powers of two, vertical and horizontal.
        is_full: Whether the name of the format implies full range.
    """

    depth: int
    shifts: tuple[int, int]
    is_full: bool


@cache
def layout_of(pixel_format: str) -> Layout | None:
    """Return the layout of a pixel format that this module converts; None for a format that FFmpeg must convert."""
    match = _PLANAR.fullmatch(pixel_format)
    if match is None:
        return None
    return Layout(int(match[3] or 8), _SHIFTS[match[2]], match[1] == "j")


def decoded_bytes(info: VideoInfo) -> int:
    """Return the size in bytes of a decoded frame, without padding; of an unknown pixel format three bytes per pixel."""
    layout, pixels = layout_of(info.pixel_format), info.height * info.width
    if layout is None:
        return 3 * pixels
    return (pixels + 2 * (pixels >> sum(layout.shifts))) * (2 if layout.depth > 8 else 1)


def rgb_matrix(matrix: int) -> NDArray[np.float64]:
    """Return the matrix [3, 3] from luma in [0, 1], and blue and red chroma in [-0.5, 0.5], to RGB.

    Args:
        matrix: A key of LUMA_WEIGHTS.
    """
    red, blue = LUMA_WEIGHTS[matrix]
    green = 1 - red - blue
    blue_u, red_v = 2 * (1 - blue), 2 * (1 - red)
    return np.array(
        [[1, 0, red_v], [1, -blue_u * blue / green, -red_v * red / green], [1, blue_u, 0]]
    )


def to_rgb(
    frame: Any,
    info: VideoInfo,
    part: Rect | None = None,
    out: NDArray[np.uint8] | None = None,
) -> NDArray[np.uint8]:
    """Convert a part of a decoded frame to RGB.

    Args:
        frame: An `av.VideoFrame` with the size in `info`.
        info: Metadata with colour matrix, range and rotation.
        part: Part of the upright frame; None converts the full frame.
        out: uint8 [height, width, 3], contiguous: memory for the result, which is used if the result needs no other.

    Returns:
        uint8 [height, width, 3], RGB, upright, with any strides: `out`, or memory that the thread's next call may overwrite.

    Raises:
        DecodeError: FFmpeg cannot convert the frame.
    """
    upright = part or (0, 0, info.height, info.width)
    stored = stored_rect(upright, stored_size(info), info.rotation)
    layout = layout_of(frame.format.name)
    out = None if info.rotation else out
    rgb = None if layout is None else _convert(frame, info, layout, stored, out)
    if rgb is None:
        top, left, height, width = stored
        rgb = _convert_by_ffmpeg(frame, info)[top : top + height, left : left + width]
    return np.rot90(rgb, -info.rotation // 90) if info.rotation else rgb


def stored_rect(upright: Rect, size: tuple[int, int], rotation: int) -> Rect:
    """Return the position of a rectangle of an upright frame in the stored frame.

    Args:
        upright: The rectangle in pixels of the upright frame.
        size: Height and width of the stored frame.
        rotation: Degrees by which the stored frame is turned clockwise to be upright: 0, 90, 180, 270.
    """
    top, left, height, width = upright
    rows, columns = size
    if rotation == 90:
        return rows - left - width, top, width, height
    if rotation == 180:
        return rows - top - height, columns - left - width, height, width
    if rotation == 270:
        return left, columns - top - height, width, height
    return upright


def _convert(
    frame: Any, info: VideoInfo, layout: Layout, part: Rect, out: NDArray[np.uint8] | None = None
) -> NDArray[np.uint8] | None:
    """Return the RGB pixels of a part, converted by our own code; None if it lacks the matrix or the memory layout."""
    from dali_pipes.video.yuv import STEP, write_rgb

    if info.matrix == YCGCO:
        return _convert_ycgco(frame, info, layout, part)
    factors = _factors(_matrix_of(info), layout.depth, layout.is_full or info.full_range)
    top, left, height, width = part
    wide = layout.depth > 8
    limit = frame.width + frame.width % 2  # FFmpeg pads rows of odd width
    luma, blue, red, *_ = frame.planes
    is_as_usual = (
        luma.line_size >= limit << wide
        and red.line_size == blue.line_size >= limit >> layout.shifts[1] << wide
    )
    if factors is None or limit < STEP or not is_as_usual:
        return None
    begin = min(left - left % 2, limit - STEP)
    end = max(left + width + (left + width) % 2, begin + STEP)
    if out is None or end - begin != width:
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
    return out if end - begin == width else out[:, left - begin : left - begin + width]


@cache
def _factors(matrix: int, depth: int, full_range: bool) -> NDArray[np.int32] | None:
    """Return the table of factors for `yuv.write_rgb`; None for a matrix that is not of luma and colour differences."""
    from dali_pipes.video.yuv import FRACTION

    if matrix not in LUMA_WEIGHTS:
        return None
    black, luma_range, chroma_range = _ranges(depth, full_range)
    unit = 255 * (1 << FRACTION)
    luma = unit / luma_range
    (_, _, red_v), (_, green_u, green_v), (_, blue_u, _) = (
        rgb_matrix(matrix) * unit / chroma_range
    ).tolist()
    half = (1 << FRACTION - 1) - luma * black
    middle = 1 << depth - 1
    constants = (
        half - middle * red_v,
        half - middle * (green_u + green_v),
        half - middle * blue_u,
    )
    return np.rint([luma, *constants, red_v, green_u, green_v, blue_u]).astype(np.int32)


def _ranges(depth: int, full_range: bool) -> tuple[int, int, int]:
    """Return the luma of black, and the ranges of luma and of chroma, for samples of `depth` bits."""
    if full_range:
        return 0, (1 << depth) - 1, (1 << depth) - 1
    step = 1 << depth - 8
    return 16 * step, 219 * step, 224 * step


def _convert_ycgco(frame: Any, info: VideoInfo, layout: Layout, part: Rect) -> NDArray[np.uint8]:
    """Convert YCgCo, which some screen recorders write and FFmpeg cannot convert.

    Source: ITU-T H.273, 8.3, matrix coefficients 8. Y is half of green plus a quarter each of red and blue. Cg is half
    of green minus these quarters. Co is half of red minus half of blue. In limited range, red, green and blue are from
    16 to 235.
    """
    y, green, orange = (
        _samples(plane, layout.depth, part, layout.shifts if number else (0, 0)).astype(np.float32)
        for number, plane in enumerate(frame.planes[:3])
    )
    green -= 1 << layout.depth - 1
    orange -= 1 << layout.depth - 1
    black, luma_range, _ = _ranges(layout.depth, layout.is_full or info.full_range)
    others = y - green
    rgb = np.stack([others + orange, y + green, others - orange], -1)
    return ((rgb - black) * np.float32(255 / luma_range) + 0.5).clip(0, 255).astype(np.uint8)


def _samples(plane: Any, depth: int, part: Rect, shifts: tuple[int, int]) -> NDArray[Any]:
    """Return the samples of a plane for each pixel of a part of the frame, [height, width]."""
    kind = np.dtype(np.uint8 if depth == 8 else "<u2")
    rows = np.frombuffer(plane, kind).reshape(-1, plane.line_size // kind.itemsize)
    top, left, height, width = part
    down = np.arange(top, top + height) >> shifts[0]
    across = np.arange(left, left + width) >> shifts[1]
    samples: NDArray[Any] = rows[down[:, None], across]
    return samples


def _convert_by_ffmpeg(frame: Any, info: VideoInfo) -> NDArray[np.uint8]:
    from av.video.reformatter import VideoReformatter

    if not hasattr(_THREAD, "reformatter"):
        _THREAD.reformatter = VideoReformatter()
    matrix = _matrix_of(info)
    try:
        rgb = _THREAD.reformatter.reformat(frame, format="rgb24", src_colorspace=matrix)
    except Exception as error:  # any error of PyAV concerns only this frame
        raise DecodeError(
            f"FFmpeg converts no {frame.format.name} of matrix {matrix} to RGB: {error}"
        ) from error
    return np.asarray(rgb.to_ndarray(), np.uint8)


def _matrix_of(info: VideoInfo) -> int:
    return BT601 if info.matrix == UNSPECIFIED_MATRIX else info.matrix


def _memory(num_bytes: int) -> NDArray[np.uint8]:
    """Return memory that belongs to the calling thread; the thread's next call returns the same memory."""
    memory: NDArray[np.uint8] | None = getattr(_THREAD, "memory", None)
    if memory is None or memory.size < num_bytes:
        memory = _THREAD.memory = np.empty(num_bytes, np.uint8)
    return memory[:num_bytes]
