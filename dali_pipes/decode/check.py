"""Checks that images and videos decode; `readers.prepare.inspect` runs them."""

import numpy as np
from numpy.typing import NDArray

from dali_pipes.decode.opencv import decode
from dali_pipes.errors import DecodeError
from dali_pipes.jpeg.seek_points import FINDER
from dali_pipes.jpeg.status import GOOD, ODD_SCANS, OF_SCANS, UNFINISHED
from readers.datasets.inspected import Checks
from readers.sample import Payload
from readers.video import VideoInfo

_DAMAGED = (OF_SCANS - {GOOD}) | {ODD_SCANS, UNFINISHED}
# DECODE_SECONDS, the time limit of a clip in a loader, is enough for this many frames.
_FRAMES_OF_A_CLIP = 100


def check_image(data: Payload, size: tuple[int, int]) -> str:
    """Decode an image and return the error text, "" if there is none.

    Args:
        data: The encoded bytes.
        size: Height and width in the header.
    """
    try:
        decode(data, size)
    except DecodeError as error:
        return str(error)
    return ""


def check_damage(data: Payload) -> str:
    """Read all codes of a JPEG and return the damage as text; "" for sound files, and for other images.

    OpenCV decodes many damaged files, and fills in what it cannot read.
    """
    status = FINDER.find(data).status
    return FINDER.reason(status) if status in _DAMAGED else ""


def check_video(data: Payload, info: VideoInfo, frames: NDArray[np.int64]) -> str:
    """Decode frames as the loader does, which finds damage that FFmpeg overlooks, and return the error.

    Args:
        data: The full file.
        info: Metadata of the video.
        frames: int64 [n], numbers of frames in the order of presentation.
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


CHECKS = Checks(check_image, check_damage, check_video)
"""The checks that decode as the loader does."""
