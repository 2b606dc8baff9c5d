"""Checks that images and videos decode, for `readers.prepare.inspect`."""

import numpy as np
from numpy.typing import NDArray

from dali_pipes.decode.opencv import decode
from dali_pipes.errors import DecodeError
from dali_pipes.jpeg.seek_points import FINDER
from dali_pipes.jpeg.status import GOOD, ODD_SCANS, OF_SCANS, UNFINISHED
from readers.prepare.video_inspection import Checks
from readers.sample import Payload
from readers.video import VideoInfo

_DAMAGED = (OF_SCANS - {GOOD}) | {ODD_SCANS, UNFINISHED}
_FRAMES_OF_A_CLIP = 100  # for which the time is enough that the loader gives to a clip


def check_image(data: Payload, size: tuple[int, int]) -> str:
    """Decode an image and return the error, "" if there is none.

    Args:
        data: The encoded bytes.
        size: Height and width that the header promises.
    """
    try:
        decode(data, size)
    except DecodeError as error:
        return str(error)
    return ""


def check_damage(data: Payload) -> str:
    """Read all codes of a JPEG and return what is wrong with them, "" if nothing is, and for other images.

    OpenCV decodes many damaged files, and fills in what it cannot read.
    """
    status = FINDER.find(data).status
    return FINDER.reason(status) if status in _DAMAGED else ""


def check_video(data: Payload, info: VideoInfo, frames: NDArray[np.int64]) -> str:
    """Decode frames as the loader does, which finds damage that FFmpeg overlooks, and return the error.

    Args:
        data: The whole file.
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
"""How this package decodes."""
