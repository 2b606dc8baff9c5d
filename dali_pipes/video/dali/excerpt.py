"""Make excerpts of videos: the packets that a clip needs, as a small Matroska file with its own frame numbers.

DALI reads a complete file to number its frames, and ignores edit lists and frames that are never displayed. An excerpt
has neither, and is a hundredth of a long video. Source of the format: RFC 8794 (EBML) and RFC 9559 (Matroska).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dali_pipes.video.codec import stored_size
from dali_pipes.video.dali.support import Backend, decodes
from dali_pipes.video.packet_headers import begins_anew, shows_earlier
from dali_pipes.video.packets import Run, plan_runs
from readers.sample import Payload
from readers.video import VideoError, VideoInfo, read_packets


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A small video file with the packets that must be decoded for a clip.

    Attributes:
        data: uint8 [num_bytes], Matroska.
        frames: int32 [n], indices in this file of the clip's frames, ascending, without duplicates.
        picks: int64 [T], position in `frames` of each frame of the clip.
        info: Metadata of the video.
    """

    data: NDArray[np.uint8]
    frames: NDArray[np.int32]
    picks: NDArray[np.int64]
    info: VideoInfo

    @property
    def size_bytes(self) -> int:
        """Size of the decoded frames in bytes."""
        return len(self.frames) * self.info.height * self.info.width * 3


def make_excerpt(
    data: Payload, info: VideoInfo, frames: NDArray[np.int64], backend: Backend
) -> Excerpt | None:
    """Return the excerpt for a clip; None if DALI might decode other frames of it than FFmpeg, or cannot decode it.

    Args:
        data: The bytes of the video file.
        info: Metadata of the video.
        frames: int64 [T], the indices of the clip's frames, counted in presentation order.
        backend: Backend of DALI's decoder.
    """
    if not decodes(info, backend):
        return None
    wanted, picks = np.unique(frames, return_inverse=True)
    runs = [_packets_of(info, run) for run in plan_runs(info, info.frame_packets[wanted].tolist())]
    pts = info.packet_pts[np.concatenate(runs)]
    shown = np.sort(pts)
    written: list[Packet] = []
    for packets in runs:
        try:
            content = [
                next(read_packets(data, info, packet, packet + 1)) for packet in packets.tolist()
            ]
        except VideoError:  # the decoder on the CPU reports the reason
            return None
        if not _is_unambiguous(info, packets, content, backend):
            return None
        numbers = np.searchsorted(shown, info.packet_pts[packets]).tolist()
        written += map(Packet, numbers, packets == packets[0], content)
    file = write_matroska(info.codec, info.extradata, stored_size(info), written)
    own = np.searchsorted(shown, info.pts[wanted]).astype(np.int32)
    return Excerpt(np.frombuffer(file, np.uint8), own, picks, info)


def _packets_of(info: VideoInfo, run: Run) -> NDArray[np.int64]:
    """Return the packets of a run, except those shown before its keyframe, which need packets before the run."""
    packets = np.arange(run.start, run.stop)
    pts = info.packet_pts[packets]
    needed: NDArray[np.int64] = packets[(pts >= pts[0]) | run.needed]
    return needed


def _is_unambiguous(
    info: VideoInfo, packets: NDArray[np.int64], content: list[Payload], backend: Backend
) -> bool:
    """Return whether every decoder makes exactly one frame of each packet, starting with the first."""
    if (info.packet_pts[packets] > info.pts[-1]).any():  # hidden frames
        return False
    if backend == "cpu":
        return True
    earlier = any(shows_earlier(info.codec, packet) for packet in content)
    return begins_anew(info.codec, content[0]) and not earlier


CODEC_IDS = {
    "h264": b"V_MPEG4/ISO/AVC",
    "hevc": b"V_MPEGH/ISO/HEVC",
    "av1": b"V_AV1",
    "vp9": b"V_VP9",
    "vp8": b"V_VP8",
    "mpeg4": b"V_MPEG4/ISO/ASP",
}
"""FFmpeg's names of the codecs that can be written, and Matroska's identifiers."""

_MILLISECOND = 1_000_000  # in nanoseconds, the time unit of the format


class Packet(NamedTuple):
    """An encoded frame to write into a Matroska file.

    Attributes:
        number: Index of the frame in presentation order; it becomes the frame's time in ms.
        is_keyframe: Whether decoding can start with this frame.
        content: The frame's encoded bytes.
    """

    number: int
    is_keyframe: bool
    content: Payload


def write_matroska(
    codec: str, extradata: bytes, size: tuple[int, int], packets: Iterable[Packet]
) -> bytes:
    """Return a Matroska file with one video stream.

    Args:
        codec: A key of CODEC_IDS.
        extradata: Codec configuration, which the decoder gets before the first packet.
        size: Height and width of the frames before they are turned upright.
        packets: The packets in decoding order.
    """
    height, width = size
    track = b"".join(
        [
            *(_number(name, 1) for name in (_TRACK_NUMBER, _TRACK_UID, _TRACK_TYPE)),
            _number(_LACING, 0),
            _element(_CODEC_ID, CODEC_IDS[codec]),
            _element(_CODEC_PRIVATE, extradata) if extradata else b"",
            _element(_VIDEO, _number(_WIDTH, width) + _number(_HEIGHT, height)),
        ]
    )
    segment = [
        _element(_INFO, _number(_TIMESTAMP_SCALE, _MILLISECOND)),
        _element(_TRACKS, _element(_TRACK_ENTRY, track)),
        *map(_cluster, packets),
    ]
    return _element(_EBML, _element(_DOC_TYPE, b"matroska")) + _element(_SEGMENT, b"".join(segment))


_EBML, _DOC_TYPE, _SEGMENT = 0x1A45DFA3, 0x4282, 0x18538067
_INFO, _TIMESTAMP_SCALE, _TRACKS, _TRACK_ENTRY = 0x1549A966, 0x2AD7B1, 0x1654AE6B, 0xAE
_TRACK_NUMBER, _TRACK_UID, _TRACK_TYPE, _LACING = 0xD7, 0x73C5, 0x83, 0x9C
_CODEC_ID, _CODEC_PRIVATE, _VIDEO, _WIDTH, _HEIGHT = 0x86, 0x63A2, 0xE0, 0xB0, 0xBA
_CLUSTER, _TIMESTAMP = 0x1F43B675, 0xE7
_SIMPLE_BLOCK, _FIRST_TRACK, _KEYFRAME = 0xA3, b"\x81", b"\x80"
"""Identifiers of elements and flags of blocks (above, too): RFC 8794 (EBML) and RFC 9559 (Matroska)."""


def _cluster(packet: Packet) -> bytes:
    """Return a Matroska cluster with one packet: packets of one cluster can be at most 32,768 ms apart."""
    flags = _KEYFRAME if packet.is_keyframe else b"\x00"
    block = b"".join([_FIRST_TRACK, b"\x00\x00", flags, packet.content])  # 0 ms after the cluster
    return _element(_CLUSTER, _number(_TIMESTAMP, packet.number) + _element(_SIMPLE_BLOCK, block))


def _number(name: int, value: int) -> bytes:
    return _element(name, value.to_bytes(max(1, _num_bytes(value)), "big"))


def _element(name: int, content: bytes) -> bytes:
    return name.to_bytes(_num_bytes(name), "big") + _length(len(content)) + content


def _length(num_bytes: int) -> bytes:
    return (1 << 56 | num_bytes).to_bytes(8, "big")


def _num_bytes(value: int) -> int:
    return -(-value.bit_length() // 8)
