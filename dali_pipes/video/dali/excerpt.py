"""Excerpts: the packets that a clip needs, as a small Matroska file with frame numbers of our own.

DALI reads an entire file to number its frames, and ignores edit lists and frames that are never shown. An excerpt has
neither, and is a hundredth of a long video.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dali_pipes.video.codec import stored_size
from dali_pipes.video.dali.matroska import LONGEST_GROUP, Group, write_matroska
from dali_pipes.video.dali.support import Backend, decodes
from dali_pipes.video.packet_headers import begins_anew, shows_earlier
from dali_pipes.video.packets import Run, plan_runs
from readers.sample import Payload
from readers.video import VideoError, VideoInfo, read_packets


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A file with the packets that must be decoded for a clip.

    Attributes:
        data: uint8 [num_bytes], Matroska.
        frames: int32 [n], numbers of the clip's frames in this file, ascending, each once.
        picks: int64 [T], the position in `frames` of each frame of the clip.
        info: Metadata of the video.
    """

    data: NDArray[np.uint8]
    frames: NDArray[np.int32]
    picks: NDArray[np.int64]
    info: VideoInfo

    @property
    def size_bytes(self) -> int:
        """Bytes of the decoded frames."""
        return len(self.frames) * self.info.height * self.info.width * 3


def make_excerpt(
    data: Payload, info: VideoInfo, frames: NDArray[np.int64], backend: Backend
) -> Excerpt | None:
    """Return the packets that a clip needs, or None if DALI could decode other frames than FFmpeg, or none.

    Args:
        data: The video file.
        info: Metadata of the video.
        frames: int64 [T], the clip's frames by their numbers in the order of presentation.
        backend: Backend of DALI's decoder.
    """
    if not decodes(info, backend):
        return None
    wanted, picks = np.unique(frames, return_inverse=True)
    runs = [_packets_of(info, run) for run in plan_runs(info, info.frame_packets[wanted].tolist())]
    pts = info.packet_pts[np.concatenate(runs)]
    shown = np.sort(pts)
    groups = []
    for packets in runs:
        numbers = np.searchsorted(shown, info.packet_pts[packets])
        try:
            content = [
                next(read_packets(data, info, packet, packet + 1)) for packet in packets.tolist()
            ]
        except VideoError:  # the decoder on the CPU reports the reason
            return None
        if np.ptp(numbers) >= LONGEST_GROUP or not _is_unambiguous(info, packets, content, backend):
            return None
        groups.append(Group(numbers.tolist(), content))
    file = write_matroska(info.codec, info.extradata, stored_size(info), groups)
    own = np.searchsorted(shown, info.pts[wanted]).astype(np.int32)
    return Excerpt(np.frombuffer(file, np.uint8), own, picks, info)


def _packets_of(info: VideoInfo, run: Run) -> NDArray[np.int64]:
    """Return the packets of a run without those shown before its keyframe, which need packets before the run."""
    packets = np.arange(run.start, run.stop)
    pts = info.packet_pts[packets]
    needed: NDArray[np.int64] = packets[(pts >= pts[0]) | run.needed]
    return needed


def _is_unambiguous(
    info: VideoInfo, packets: NDArray[np.int64], content: list[Payload], backend: Backend
) -> bool:
    """Return whether every decoder makes one frame of each packet, beginning with the first."""
    if (info.packet_pts[packets] > info.pts[-1]).any():  # hidden frames
        return False
    if backend == "cpu":
        return True
    earlier = any(shows_earlier(info.codec, packet) for packet in content)
    return begins_anew(info.codec, content[0]) and not earlier
