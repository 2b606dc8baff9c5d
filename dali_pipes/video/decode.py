"""Decoding some frames of a video on the CPU."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dali_pipes.errors import DecodeError
from dali_pipes.video.codec import ClipDeadline, UndecodableError, decode_run, stored_size
from dali_pipes.video.color import to_rgb
from dali_pipes.video.packets import packets_of, plan_runs
from dali_pipes.video.undamaged import sound_frames
from readers.sample import Payload
from readers.video import VideoInfo

DECODE_SECONDS = 30.0
"""After which a clip is given up. It is looked at between packets: one packet is not interrupted."""

BACK = (0, 1, 1 << 40)
"""How many keyframes earlier it is tried again what does not decode: the last try is from the beginning."""


def read_frames(
    data: Payload,
    info: VideoInfo,
    frames: NDArray[np.int64],
    deadline: ClipDeadline | None = None,
    *,
    back: Sequence[int] = BACK,
) -> Iterator[tuple[int, Any]]:
    """Decode some frames of a video, each once.

    Packets whose frames are not wanted and that no other frame refers to are not decoded.

    Args:
        data: The whole file.
        info: Metadata of the video.
        frames: int64 [n], 0 <= frame < len(info), repetitions allowed, in any order.
        deadline: When to give up; None is `DECODE_SECONDS` from now on.
        back: How many keyframes earlier to begin in each try.

    Yields:
        Frame, and its `av.VideoFrame`, as it is stored; in no certain order.

    Raises:
        DecodeError: One of them cannot be decoded, is damaged as far as FFmpeg notices, or has not the size
            of the first one.
    """
    deadline = deadline or ClipDeadline(DECODE_SECONDS, info)
    wanted = np.unique(frames)
    left = dict(zip(packets_of(info)[wanted].tolist(), wanted.tolist(), strict=True))
    tried: set[tuple[int, int]] = set()
    reason = ""
    for keyframes_back in back:
        for run in plan_runs(info, list(left), back=keyframes_back):
            if (run.start, run.stop) in tried:
                continue
            tried.add((run.start, run.stop))
            try:
                decoded = decode_run(data, info, run, deadline)
                for packet, frame in sound_frames(info, run, decoded):
                    if packet in left and has_size(frame, info):
                        with deadline.stopped():  # what is done with the frame is not decoding
                            yield left.pop(packet), frame
                    elif packet in left:
                        reason = reason or _other_size(frame, info)
            except UndecodableError as error:
                reason = reason or f": {error}"
        if not left:
            return
    raise DecodeError(f"frame {min(left.values())} of {len(info)} cannot be decoded{reason}")


def decode_frames(
    data: Payload, info: VideoInfo, frames: NDArray[np.int64]
) -> dict[int, NDArray[np.uint8]]:
    """Decode some frames of a video whole; arguments and errors are those of `read_frames`.

    Returns:
        Frame -> uint8 [height, width, 3], RGB, upright.
    """
    found = read_frames(data, info, frames)
    return {frame: to_rgb(picture, info).copy() for frame, picture in found}


def has_size(frame: Any, info: VideoInfo) -> bool:
    """Whether a frame has the size of the first one."""
    return (frame.height, frame.width) == stored_size(info)


def _other_size(frame: Any, info: VideoInfo) -> str:
    height, width = stored_size(info)
    return f": it has {frame.height}x{frame.width} pixels, the first frame {height}x{width}"
