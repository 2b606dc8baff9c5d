"""Decoding the readable part of a damaged video: an undecodable frame is replaced by the last good one."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dali_pipes.errors import DecodeError
from dali_pipes.video.codec import ClipDeadline, UndecodableError, decode_run
from dali_pipes.video.decode import BACK, DECODE_SECONDS, has_size, read_frames
from dali_pipes.video.packets import Run, packets_of
from dali_pipes.video.undamaged import sound_frames
from readers.sample import Payload
from readers.video import VideoInfo


def read_readable(
    data: Payload, info: VideoInfo, frames: NDArray[np.int64], held: dict[int, int] | None = None
) -> Iterator[tuple[int, Any]]:
    """Decode some frames of a video as `read_frames` does; an undecodable frame is replaced by the last good one.

    A frame counts as decodable if it can be decoded when no other frame is wanted. In its place comes the last one of those that are
    decoded before anything is damaged. So both depend on the video alone, not on what else is wanted.

    Args:
        data: As for `read_frames`.
        info: As for `read_frames`.
        frames: As for `read_frames`.
        held: Gets the frames that cannot be had, each with the one in its place.

    Raises:
        DecodeError: There is no good frame before it, or the time limit was exceeded.
    """
    deadline = ClipDeadline(DECODE_SECONDS, info)
    packets = packets_of(info)
    left = set(np.unique(frames).tolist())
    lost: list[int] = []
    while left:
        try:
            wanted = np.array(sorted(left))
            for frame, picture in read_frames(
                data, info, wanted, deadline, back=(0,) if lost else BACK
            ):
                left.discard(frame)
                yield frame, picture
        except DecodeError:
            deadline.check()
            # All wanted frames that are decoded before this one are good: it is bad whatever else is wanted.
            lost.append(min(left, key=packets.__getitem__))
            left.remove(lost[-1])
    for frame in sorted(lost):
        shown, picture = _last_good(data, info, frame, deadline)
        if held is not None:
            held[frame] = shown
        yield frame, picture


def _last_good(
    data: Payload, info: VideoInfo, wanted: int, deadline: ClipDeadline
) -> tuple[int, Any]:
    """The last good frame that is shown no later than another one, and its number."""
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
                if has_size(picture, info) and (best[0] if best else -1) < number <= wanted:
                    best = number, picture
        if best:
            return best
        stop = start
    raise DecodeError(f"neither frame {wanted} of {len(info)} nor one before it can be decoded")


def _starts(info: VideoInfo, stop: int) -> list[int]:
    """The packets before `stop` with which decoding can begin, the last one first."""
    keys = info.keyframes[info.keyframes < stop].tolist()
    return sorted({0, *keys}, reverse=True)
