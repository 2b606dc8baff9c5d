"""Check images and videos by decoding them; `readers.prepare.inspect` runs these checks."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dali_pipes.decode.opencv import decode
from dali_pipes.decode.stored import read_layer
from dali_pipes.errors import DecodeError
from dali_pipes.jpeg.seek_points import FINDER
from dali_pipes.jpeg.status import GOOD, ODD_SCANS, OF_SCANS, UNFINISHED
from readers.datasets.inspected import Checks
from readers.sample import Payload
from readers.video import VideoInfo

_DAMAGED = (OF_SCANS - {GOOD}) | {ODD_SCANS, UNFINISHED}
"""Statuses that mean a damaged file. All others except GOOD only mean that our decoder does not support the file."""
# DECODE_SECONDS, a loader's time limit per clip, is granted for this many frames.
_FRAMES_OF_A_CLIP = 100


def check_image(data: Payload, size: tuple[int, int]) -> str:
    """Decode an image and return the error message, or "" if it decodes.

    Args:
        data: The encoded bytes.
        size: Height and width that the image's header states.
    """
    return _error_of(decode, data, size)


def check_numbers(data: Payload, size: tuple[int, int]) -> str:
    """Decode a picture with one number per pixel and return the error message, or "" if it decodes; see `check_image`."""
    return _error_of(read_layer, data, size)


def _error_of(
    decoder: Callable[[Payload, tuple[int, int]], object], data: Payload, size: tuple[int, int]
) -> str:
    try:
        decoder(data, size)
    except DecodeError as error:
        return str(error)
    return ""


def check_damage(data: Payload) -> str:
    """Decode all Huffman codes of a JPEG and return the damage as text; "" for sound JPEGs and other formats.

    OpenCV decodes many damaged files without an error, and fills the missing pixels.
    """
    status = FINDER.find(data).status
    return FINDER.reason(status) if status in _DAMAGED else ""


def check_video(data: Payload, info: VideoInfo, frames: NDArray[np.int64]) -> str:
    """Decode frames of a video as the loader does and return the error message, or "" if they decode.

    The loader's checks find damage that FFmpeg does not report.

    Args:
        data: Bytes of the full file.
        info: Metadata of the video.
        frames: int64 [n], indices of the frames to decode, counted in presentation order.
    """
    from dali_pipes.video.codec import ClipDeadline
    from dali_pipes.video.decode import DECODE_SECONDS, read_frames

    deadline = ClipDeadline(DECODE_SECONDS * (1 + len(frames) / _FRAMES_OF_A_CLIP))
    try:
        for _ in read_frames(data, info, frames, deadline):
            pass
    except DecodeError as error:
        return str(error)
    return ""


CHECKS = Checks(check_image, check_damage, check_video, check_numbers)
"""The checks of `readers.prepare.inspect`, with the decoders of a loader."""
