"""Which packets of a video must be decoded for the frames that are wanted."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from readers.video import VideoInfo
from readers.video.info import HIDDEN


class Run(NamedTuple):
    """Packets that are decoded one after the other, from a keyframe on.

    Attributes:
        start: The first packet.
        stop: The packet after the last.
        needed: bool [stop - start], False for those whose frames are not wanted: they may be passed over where no
            other frame refers to them.
    """

    start: int
    stop: int
    needed: NDArray[np.bool_]


def packets_of(info: VideoInfo) -> NDArray[np.int64]:
    """The packet of each frame, int64 [F]."""
    return info.frame_packets


def plan_runs(info: VideoInfo, packets: Sequence[int], *, back: int = 0) -> Iterator[Run]:
    """Divide what must be decoded into runs; no packet is in two of them.

    Decoding begins at the last keyframe that is shown no later than the frame: the frames of an open group
    that are shown before its keyframe need the group before.

    Args:
        info: Metadata of the video.
        packets: Packets whose frames are wanted, in the order of presentation, at least one.
        back: How many keyframes earlier to begin.
    """
    wanted = np.asarray(packets, np.int64)
    starts = first_packets(info, wanted, back=back)
    start, members = int(starts[0]), [int(wanted[0])]
    for packet, first in zip(wanted[1:].tolist(), starts[1:].tolist(), strict=True):
        if first > max(members) + 1:
            yield _run(info, start, members)
            start, members = first, []
        start = min(start, first)
        members.append(packet)
    yield _run(info, start, members)


def first_packets(
    info: VideoInfo, packets: NDArray[np.int64], *, back: int = 0
) -> NDArray[np.int64]:
    """The packet at which decoding begins for the frame of each packet; arguments as for `plan_runs`.

    Returns:
        int64 [n], packets, none behind the frame's own.
    """
    if not len(info.keyframes):
        return np.zeros_like(packets)
    keyframes, key_pts = info.shown_keyframes
    key = np.searchsorted(key_pts, info.packet_pts[packets], side="right") - 1 - back
    starts = np.where(key >= 0, keyframes[np.maximum(key, 0)], 0)
    return np.where(starts <= packets, starts, 0)


def _run(info: VideoInfo, start: int, members: list[int]) -> Run:
    stop = max(members) + 1
    pts = info.packet_pts
    # The second field of a picture is a packet of its own, whose frame is not shown.
    while stop < len(pts) and pts[stop] >= HIDDEN:
        stop += 1
    needed = pts[start:stop] >= HIDDEN
    needed[np.array(members) - start] = True
    return Run(start, stop, needed)
