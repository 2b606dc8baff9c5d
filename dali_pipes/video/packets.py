"""Which packets of a video must be decoded for the frames that are wanted."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from readers.video import VideoInfo


class Run(NamedTuple):
    """Packets that are decoded one after the other, from a keyframe on.

    Attributes:
        start: The first packet.
        stop: The packet after the last.
        wanted: bool [stop - start], whose frames are wanted.
    """

    start: int
    stop: int
    wanted: NDArray[np.bool_]


def plan_runs(info: VideoInfo, frames: NDArray[np.int64]) -> Iterator[Run]:
    """Divide what must be decoded into runs; no packet is in two of them.

    Decoding begins at the last keyframe that is shown no later than the frame: the frames of an open group
    that are shown before its keyframe need the group before.

    Args:
        info: Of the video.
        frames: int64 [n], places in the order of presentation, at least one.
    """
    packet_of = np.argsort(info.packet_pts, kind="stable")
    wanted = packet_of[np.unique(frames)]
    key_pts = info.packet_pts[info.keyframes]
    by_pts = np.argsort(key_pts, kind="stable")
    place = np.searchsorted(key_pts[by_pts], info.packet_pts[wanted], side="right") - 1
    starts = np.where(place >= 0, info.keyframes[by_pts[np.maximum(place, 0)]], 0)
    start, members = int(starts[0]), [int(wanted[0])]
    for packet, first in zip(wanted[1:].tolist(), starts[1:].tolist(), strict=True):
        if first > max(members) + 1:
            yield _run(start, members)
            start, members = first, []
        start = min(start, first)
        members.append(packet)
    yield _run(start, members)


def _run(start: int, members: list[int]) -> Run:
    stop = max(members) + 1
    wanted = np.zeros(stop - start, bool)
    wanted[np.array(members) - start] = True
    return Run(start, stop, wanted)
