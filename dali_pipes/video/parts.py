"""The parts of a clip: frames that come from one video, and which rows of a step decode theirs together."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dali_pipes.video.packets import first_packets, packets_of
from readers import BadSample
from readers.sample import Payload
from readers.video import VideoInfo

ReadPictures = Callable[[NDArray[np.int64]], list[Payload | BadSample]]
"""Reads encoded pictures, int64 [n], of a video whose frames are pictures of their own."""


class Part(NamedTuple):
    """Neighbouring frames of a clip that come from one video.

    Attributes:
        columns: Which of the clip's frames.
        video: A number or a pair of them by which the video is known among those of a dataset.
        info: Its metadata.
        read: Reads its pictures, where they are files of their own.
        field: The field of the sample that holds it; "" for the one that holds the sample's image.
        alone: Whether clips of the video are decoded each by itself where they have no packets in common, so that
            several threads share the work.
    """

    columns: slice
    video: Hashable
    info: VideoInfo
    read: ReadPictures
    field: str = ""
    alone: bool = False


def overlapping(
    info: VideoInfo, frames: Mapping[int, NDArray[np.int64]]
) -> Iterable[dict[int, NDArray[np.int64]]]:
    """Divide clips of one video into groups that have no packets in common.

    Args:
        info: Metadata of the video.
        frames: int64 [n] by row, the frames of each clip.

    Yields:
        The same, of each group.
    """
    packets = packets_of(info)
    spans = {}
    for row, wanted in frames.items():
        own = packets[wanted]
        spans[row] = int(first_packets(info, own).min()), int(own.max())
    group: dict[int, NDArray[np.int64]] = {}
    reached = -1
    for row in sorted(spans, key=spans.__getitem__):
        start, last = spans[row]
        if group and start > reached:
            yield group
            group = {}
        group[row] = frames[row]
        reached = max(reached, last)
    if group:
        yield group
