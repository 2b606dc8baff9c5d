"""Decode some frames of a video on the CPU: undamaged frames, or the readable part of a damaged video."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dali_pipes.errors import DecodeError
from dali_pipes.video.codec import (
    ClipDeadline,
    UndecodableError,
    decode_run,
    stored_size,
    undamaged_frames,
)
from dali_pipes.video.color import to_rgb
from dali_pipes.video.packets import Run, plan_runs, run_of
from readers.sample import Payload
from readers.video import VideoInfo

DECODE_SECONDS = 30.0
"""Time limit for a clip. It is checked between packets; decoding of a packet is not interrupted."""

BACK = (0, 0, 1, 1 << 40)
"""How many keyframes earlier each attempt at decoding starts; the last one starts at the beginning of the video. The second one decodes
what the first left without the groups before it, whose last packets may be damaged."""


def read_frames(
    data: Payload,
    info: VideoInfo,
    frames: NDArray[np.int64],
    deadline: ClipDeadline | None = None,
    *,
    back: Sequence[int] = BACK,
) -> Iterator[tuple[int, Any]]:
    """Decode some frames of a video; each frame is decoded once.

    Packets are not decoded if their frames are not requested and no other frame refers to them.

    Args:
        data: The bytes of the video file.
        info: Metadata of the video.
        frames: int64 [n], 0 <= frame < len(info), in any order, with duplicates allowed.
        deadline: The time limit; None means `DECODE_SECONDS` from now.
        back: For each attempt, how many keyframes earlier it starts than necessary.

    Yields:
        The index of each frame and its `av.VideoFrame` as stored, not turned upright, in any order.

    Raises:
        DecodeError: A frame cannot be decoded, FFmpeg reports it as damaged, or its size differs from that of the
            first frame.
    """
    deadline = deadline or ClipDeadline(DECODE_SECONDS)
    wanted = np.unique(frames)
    left = dict(zip(info.frame_packets[wanted].tolist(), wanted.tolist(), strict=True))
    tried: set[tuple[int, int]] = set()
    reason = ""
    for keyframes_back in back:
        for run in plan_runs(info, list(left), back=keyframes_back):
            if (run.start, run.stop) in tried:
                continue
            tried.add((run.start, run.stop))
            try:
                decoded = decode_run(data, info, run, deadline)
                for packet, frame in undamaged_frames(info, run, decoded):
                    if packet in left and _has_size(frame, info):
                        with (
                            deadline.stopped()
                        ):  # the limit applies to decoding, not to the caller's work
                            yield left.pop(packet), frame
                    elif packet in left:
                        reason = reason or _other_size(frame, info)
            except UndecodableError as error:
                reason = reason or f": {error}"
        if not left:
            return
    raise DecodeError(f"frame {min(left.values())} of {len(info)} cannot be decoded{reason}")


def decode_group(
    data: Payload, info: VideoInfo, start: int, packets: Sequence[int]
) -> Iterator[tuple[int, Any]]:
    """Decode frames of one group from its keyframe on, in one attempt.

    Args:
        data: The bytes of the video file.
        info: Metadata of the video.
        start: The packet at which decoding of these frames starts; see `first_packets`.
        packets: The packets of the requested frames, at least one.

    Yields:
        The packet and the `av.VideoFrame` of each undamaged frame, also of frames of the group that are decoded on the way.

    Raises:
        UndecodableError: FFmpeg refuses a packet; the undamaged frames before it are yielded first.
        DecodeError: The time limit was exceeded.
    """
    run = run_of(info, start, packets)
    decoded = decode_run(data, info, run, ClipDeadline(DECODE_SECONDS))
    for packet, frame in undamaged_frames(info, run, decoded, with_others=True):
        if _has_size(frame, info):
            yield packet, frame


def decode_frames(
    data: Payload, info: VideoInfo, frames: NDArray[np.int64]
) -> dict[int, NDArray[np.uint8]]:
    """Decode some frames of a video to RGB; arguments and errors are those of `read_frames`.

    Returns:
        For each frame's index, its pixels: uint8 [height, width, 3], RGB, upright.
    """
    return {
        frame: to_rgb(picture, info).copy() for frame, picture in read_frames(data, info, frames)
    }


def read_readable(
    data: Payload, info: VideoInfo, frames: NDArray[np.int64], held: dict[int, int] | None = None
) -> Iterator[tuple[int, Any]]:
    """Decode some frames of a video like `read_frames`; an undecodable frame is replaced by the last good one before it.

    A frame counts as decodable if it can be decoded when no other frame is requested. Its replacement is the last frame
    that is decoded before any damage. So both depend on the video alone, not on the other requested frames.

    Args:
        data: The bytes of the video file.
        info: Metadata of the video.
        frames: int64 [n], 0 <= frame < len(info), in any order, with duplicates allowed.
        held: Receives, for the index of each undecodable frame, the index of its replacement.

    Raises:
        DecodeError: No frame before an undecodable one is good, or the time limit was exceeded.
    """
    deadline = ClipDeadline(DECODE_SECONDS)
    left = set(np.unique(frames).tolist())
    undecodable: list[int] = []
    while left:
        try:
            wanted = np.array(sorted(left))
            for frame, picture in read_frames(
                data, info, wanted, deadline, back=(0,) if undecodable else BACK
            ):
                left.discard(frame)
                yield frame, picture
        except DecodeError:
            deadline.check()
            # All requested frames that are decoded before this one are good, so this frame itself is bad.
            undecodable.append(min(left, key=info.frame_packets.__getitem__))
            left.remove(undecodable[-1])
    for frame in sorted(undecodable):
        shown, picture = _last_good(data, info, frame, deadline)
        # The frame itself may be good: the keyframe of an open group is decoded before frames that are shown before it.
        if held is not None and shown != frame:
            held[frame] = shown
        yield frame, picture


def _last_good(
    data: Payload, info: VideoInfo, wanted: int, deadline: ClipDeadline
) -> tuple[int, Any]:
    """Return the last good frame that is shown no later than frame `wanted`: its index and the frame."""
    number_of = {packet: number for number, packet in enumerate(info.frame_packets.tolist())}
    stop = int(info.frame_packets[wanted]) + 1
    # Decoding can start at each keyframe; the last one is tried first.
    for start in sorted({0, *info.keyframes[info.keyframes < stop].tolist()}, reverse=True):
        best: tuple[int, Any] | None = None
        # The good frames before the damage count; if there are none, the loop tries an earlier keyframe.
        with suppress(UndecodableError):
            run = Run(start, stop, np.ones(stop - start, bool))
            decoded = decode_run(data, info, run, deadline)
            for packet, picture in undamaged_frames(info, run, decoded):
                number = number_of.get(packet, wanted + 1)
                if _has_size(picture, info) and (best[0] if best else -1) < number <= wanted:
                    best = number, picture
        if best:
            return best
        stop = start
    raise DecodeError(f"neither frame {wanted} of {len(info)} nor one before it can be decoded")


def _has_size(frame: Any, info: VideoInfo) -> bool:
    """Return whether a frame has the size of the first frame."""
    return (frame.height, frame.width) == stored_size(info)


def _other_size(frame: Any, info: VideoInfo) -> str:
    height, width = stored_size(info)
    return f": it has {frame.height}x{frame.width} pixels, the first frame {height}x{width}"
