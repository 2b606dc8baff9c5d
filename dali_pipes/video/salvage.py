"""Decoding what is readable of a damaged video: frames that cannot be had are replaced by those before them."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dali_pipes.errors import DecodeError
from dali_pipes.video.codec import ClipDeadline, UndecodableError, decode_run, stored_size
from dali_pipes.video.decode import DECODE_SECONDS, read_frames
from dali_pipes.video.packets import Run, packets_of
from dali_pipes.video.sound import sound_frames
from readers.sample import Payload
from readers.video import VideoInfo


def read_readable(
    data: Payload, info: VideoInfo, frames: NDArray[np.int64]
) -> Iterator[tuple[int, Any]]:
    """Decode some frames of a video as `read_frames` does; one that cannot be had is the last good one before.

    Which one that is depends on the video alone. A frame is good when FFmpeg decodes all packets from the keyframe on
    that it needs, and marks it as sound.

    Raises:
        DecodeError: There is none before it, or the time is up.
    """
    deadline = ClipDeadline(DECODE_SECONDS)
    left = set(np.unique(frames).tolist())
    try:
        for frame, picture in read_frames(data, info, frames, deadline):
            left.discard(frame)
            yield frame, picture
    except DecodeError:
        deadline.check()
    for frame in sorted(left):
        yield frame, _last_good(data, info, frame, deadline)


def _last_good(data: Payload, info: VideoInfo, wanted: int, deadline: ClipDeadline) -> Any:
    """The last good frame that is shown no later than another one."""
    packets = packets_of(info)
    number_of = {packet: number for number, packet in enumerate(packets.tolist())}
    stop = int(packets[wanted]) + 1
    for start in _starts(info, stop):
        best: tuple[int, Any] | None = None
        with suppress(UndecodableError):
            run = Run(start, stop, np.ones(stop - start, bool))
            decoded = decode_run(data, info, run, deadline)
            for packet, picture in sound_frames(info, run, decoded):
                number = number_of.get(packet, wanted + 1)
                if _has_size(picture, info) and (best[0] if best else -1) < number <= wanted:
                    best = number, picture
        if best:
            return best[1]
        stop = start
    raise DecodeError(f"neither frame {wanted} of {len(info)} nor one before it can be decoded")


def _starts(info: VideoInfo, stop: int) -> list[int]:
    """The packets before `stop` with which decoding can begin, the last one first."""
    keys = info.keyframes[info.keyframes < stop].tolist()
    return sorted({0, *keys}, reverse=True)


def _has_size(picture: Any, info: VideoInfo) -> bool:
    return (picture.height, picture.width) == stored_size(info)
