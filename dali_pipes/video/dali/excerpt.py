"""Excerpts: the packets that a clip needs, as a small file whose frames we have numbered ourselves.

DALI looks through the whole of a file to number its frames, and follows neither edit lists nor frames that
are never shown. An excerpt has no such things, and is a hundredth of a long video.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dali_pipes.video.codec import stored_size
from dali_pipes.video.dali.matroska import LONGEST_GROUP, Group, write_matroska
from dali_pipes.video.dali.support import Backend, decodes
from dali_pipes.video.packet_headers import begins_anew, shows_earlier
from dali_pipes.video.packets import Run, packets_of, plan_runs
from readers.sample import Payload
from readers.video import VideoError, VideoInfo, read_packets


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A file with the packets that must be decoded for a clip.

    Attributes:
        data: uint8 [num_bytes], Matroska.
        frames: int32 [n], the numbers in it of the clip's frames, ascending, each once.
        picks: int64 [T], for each frame of the clip which of `frames` it is.
        info: The whole video.
    """

    data: NDArray[np.uint8]
    frames: NDArray[np.int32]
    picks: NDArray[np.int64]
    info: VideoInfo

    @property
    def size_bytes(self) -> int:
        """Bytes of its frames once they are decoded."""
        return len(self.frames) * self.info.height * self.info.width * 3


def make_excerpt(
    data: Payload, info: VideoInfo, frames: NDArray[np.int64], backend: Backend
) -> Excerpt | None:
    """Cut out what a clip needs; None where DALI might give other frames than ours, or none.

    Args:
        data: The whole file.
        info: Metadata of the video.
        frames: int64 [T], the clip's, numbers in the order of presentation.
        backend: Backend of DALI's decoder.
    """
    if not decodes(info, backend):
        return None
    wanted, picks = np.unique(frames, return_inverse=True)
    runs = [_packets_of(info, run) for run in plan_runs(info, packets_of(info)[wanted].tolist())]
    pts = info.packet_pts[np.concatenate(runs)]
    shown = np.sort(pts)
    groups = []
    for packets in runs:
        numbers = np.searchsorted(shown, info.packet_pts[packets])
        try:
            content = [
                next(read_packets(data, info, packet, packet + 1)) for packet in packets.tolist()
            ]
        except VideoError:  # our own decoder says why
            return None
        if np.ptp(numbers) >= LONGEST_GROUP or not _is_plain(info, packets, content, backend):
            return None
        groups.append(Group(numbers.tolist(), content))
    file = write_matroska(info.codec, info.extradata, stored_size(info), groups)
    found = np.searchsorted(shown, info.pts[wanted]).astype(np.int32)
    return Excerpt(np.frombuffer(file, np.uint8), found, picks, info)


def _packets_of(info: VideoInfo, run: Run) -> NDArray[np.int64]:
    """The packets of a run, less those that are shown before its keyframe: they need what is not there."""
    packets = np.arange(run.start, run.stop)
    pts = info.packet_pts[packets]
    kept: NDArray[np.int64] = packets[(pts >= pts[0]) | run.needed]
    return kept


def _is_plain(
    info: VideoInfo, packets: NDArray[np.int64], content: list[Payload], backend: Backend
) -> bool:
    """Whether each packet gives one frame, whichever decoder it is, from the first one on."""
    if (info.packet_pts[packets] > info.pts[-1]).any():  # frames that are not shown
        return False
    if backend == "cpu":
        return True
    earlier = any(shows_earlier(info.codec, packet) for packet in content)
    return begins_anew(info.codec, content[0]) and not earlier
