"""Find the packets to decode for some frames of a video."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from readers import BadSample
from readers.formats.lerobot.depth import DepthCodes
from readers.sample import Payload
from readers.video import VideoInfo
from readers.video.info import HIDDEN

ReadPictures = Callable[[NDArray[np.int64]], list[Payload | BadSample]]
"""A function that reads the encoded frames with indices int64 [n] of a video whose frames are separate files."""


class Part(NamedTuple):
    """Consecutive frames of a clip that come from one video, or distances that belong to the clip.

    Attributes:
        columns: Range of the clip's frames that come from the video.
        video: Index of the video in its dataset.
        info: Metadata of the video.
        read: Reads the video's frames if each is a picture of its own; raises for a video file.
        field: The field of the sample that holds the video; "" for the field of the sample's image.
        depth: How its pixels stand for distances; None for pictures.
        source: Name of the file or camera, for errors; "" if the sample's key says enough.
    """

    columns: slice
    video: Hashable
    info: VideoInfo
    read: ReadPictures
    field: str = ""
    depth: DepthCodes | None = None
    source: str = ""


class Run(NamedTuple):
    """Packets that are decoded in order, starting with a keyframe.

    Attributes:
        start: Index of the first packet.
        stop: Index after that of the last packet.
        needed: bool [stop - start], False for packets whose frames are not requested: a decoder may skip them if no
            other frame refers to them.
    """

    start: int
    stop: int
    needed: NDArray[np.bool_]


def plan_runs(info: VideoInfo, packets: Sequence[int], *, back: int = 0) -> Iterator[Run]:
    """Divide the packets to decode into runs; no packet is in two runs.

    Decoding starts at the last keyframe that is shown no later than the frame: frames of an open group that are shown
    before its keyframe need the previous group.

    Args:
        info: Metadata of the video.
        packets: Indices of the packets whose frames are requested, in presentation order, at least one.
        back: How many keyframes earlier than necessary to start.
    """
    wanted = np.asarray(packets, np.int64)
    starts = first_packets(info, wanted, back=back)
    start, members = int(starts[0]), [int(wanted[0])]
    for packet, first in zip(wanted[1:].tolist(), starts[1:].tolist(), strict=True):
        if first > max(members) + 1:
            yield run_of(info, start, members)
            start, members = first, []
        start = min(start, first)
        members.append(packet)
    yield run_of(info, start, members)


def first_packets(
    info: VideoInfo, packets: NDArray[np.int64], *, back: int = 0
) -> NDArray[np.int64]:
    """Return for each requested packet the packet at which decoding must start; the arguments are those of `plan_runs`.

    Returns:
        int64 [n], indices of packets, none of them after the requested packet itself.
    """
    if not len(info.keyframes):
        return np.zeros_like(packets)
    keyframes, key_pts = info.shown_keyframes
    key = np.searchsorted(key_pts, info.packet_pts[packets], side="right") - 1 - back
    starts = np.where(key >= 0, keyframes[np.maximum(key, 0)], 0)
    return np.where(starts <= packets, starts, 0)


def run_of(info: VideoInfo, start: int, members: Sequence[int]) -> Run:
    """Return the run from a packet to the last of the requested packets, which are its `members`."""
    stop = max(members) + 1
    pts = info.packet_pts
    # The second field of a picture is a separate packet, whose frame is not shown.
    while stop < len(pts) and pts[stop] >= HIDDEN:
        stop += 1
    needed = pts[start:stop] >= HIDDEN
    needed[np.array(members) - start] = True
    return Run(start, stop, needed)
