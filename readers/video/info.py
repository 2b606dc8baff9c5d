"""The metadata of a video: its packets, its unusual properties, and its frames within a span of seconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import ceil, floor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from readers.video.containers.open import VideoError

UNSPECIFIED_MATRIX = 2
"""`VideoInfo.matrix` of a video that does not state the matrix of its colours (a number of ITU-T H.273)."""

HIDDEN = 1 << 62
"""Values of `VideoInfo.packet_pts` of at least this mark packets that are never shown."""
WORDS: Mapping[str, str] = {
    "variable rate": "stride= counts frames, fps= goes by time",
    "turned": "drawn upright",
    "interlaced": "frames are handed over as coded, not deinterlaced; where that matters do it beforehand",
    "several streams": "more than one of video; that which FFmpeg takes for the best is read",
    "slow": "each clip is read from the beginning of its file on; copy the streams to .mkv or .mp4",
}
"""Names of unusual properties of videos, and a note for the user on how each is handled."""


@dataclass(frozen=True)
class VideoInfo:
    """Metadata of the video stream of a file: its coding, and its packets.

    Frames are numbered from 0 in the order of presentation, packets from 0 in the order of decoding. Most packets hold one
    frame that is shown. Other packets are only needed to decode frames (they are cut off by an edit list, are alternative
    references of VP8, or hold the second field of a picture), or hold no frame. So there are P packets and F <= P frames, and
    ``np.argsort(packet_pts)[:F]`` gives the packet of each frame.

    Sizes are in stored pixels: aspect ratios of pixels and mirroring are ignored, rotation is applied.

    Attributes:
        container: FFmpeg's name of the container, such as ``mov,mp4,m4a,3gp,3g2,mj2``.
        codec: FFmpeg's name of the codec: ``h264``, ``hevc``, ``av1``, ``vp9``, ``mpeg4``, ``mjpeg``.
        decoder: FFmpeg's name of the decoder of the first frame.
        codec_tag: The container's four-character code of the codec; "" if it has none.
        extradata: Codec configuration, which the decoder needs before the first packet.
        height: Height of upright frames in pixels.
        width: Width of upright frames in pixels.
        rotation: Degrees by which decoded frames must be turned clockwise to be upright: 0, 90, 180 or 270.
        pixel_format: FFmpeg's name of the pixel format, such as ``yuv420p`` or ``yuv420p10le``.
        matrix: Matrix from luma and chroma to RGB, as a number of ITU-T H.273: 1 is BT.709, 5 and 6 are BT.601, 8 is
            YCgCo, 9 is BT.2020, 2 is unknown. 12 is replaced by the matrix of the primaries; 10, with constant luminance, is
            converted like 9, as FFmpeg does.
        full_range: Whether luma of 8 bits ranges from 0 to 255; if False, from 16 to 235.
        time_base: Seconds per unit of `packet_pts`.
        last_duration: Duration of the last frame, in units of `time_base`.
        has_audio: Whether the file has an audio stream.
        damage: Reason why the file has fewer frames than it should; "" if no damage is known.
        packet_pts: int64 [P], presentation time of the frame of each packet, in units of `time_base`; all differ. It is
            `HIDDEN` or more for packets whose frames are not shown.
        packet_offsets: int64 [P], offsets of the packets in the file; int64 [0] if a packet is not contiguous in the file.
            `readers.video.read_packets` reads packets in both cases.
        packet_sizes: int32 [P], sizes of the packets in bytes.
        keyframes: int64 [K], indices of the packets at which decoding can begin, ascending.
        stream_index: Index of the stream in the container.
        num_streams: Number of video streams in the container.
        interlaced: Whether frames are coded as two fields each; they are not deinterlaced.
        wrapping: How the container splits packets into pieces, see `readers.video.containers.elementary_stream`; "" if packets
            are contiguous, or must be read through the container.
        packet_places: If packets are split into pieces, int64 [P, 2]: the offset of the container's unit in which each packet
            begins, and the offset of the packet's first byte; else int64 [0, 2].
    """

    container: str
    codec: str
    decoder: str
    codec_tag: str
    extradata: bytes
    height: int
    width: int
    rotation: int
    pixel_format: str
    matrix: int
    full_range: bool
    time_base: Fraction
    last_duration: int
    has_audio: bool
    damage: str
    packet_pts: NDArray[np.int64]
    packet_offsets: NDArray[np.int64]
    packet_sizes: NDArray[np.int32]
    keyframes: NDArray[np.int64]
    stream_index: int = 0
    num_streams: int = 1
    interlaced: bool = False
    wrapping: str = ""
    packet_places: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 2), np.int64))

    def __len__(self) -> int:
        """Return the number of frames, F."""
        return self._num_frames

    @cached_property
    def _num_frames(self) -> int:
        return int(np.count_nonzero(self.packet_pts < HIDDEN))

    @cached_property
    def pts(self) -> NDArray[np.int64]:
        """int64 [F], presentation time of each frame, ascending, in units of `time_base`."""
        return np.sort(self.packet_pts)[: len(self)]

    @cached_property
    def frame_packets(self) -> NDArray[np.int64]:
        """int64 [F], the index of the packet of each frame."""
        return np.argsort(self.packet_pts, kind="stable")[: len(self)]

    @cached_property
    def shown_keyframes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """int64 [K], the packets of `keyframes` sorted by presentation time; and int64 [K], their presentation times."""
        pts = self.packet_pts[self.keyframes]
        order = np.argsort(pts, kind="stable")
        return self.keyframes[order], pts[order]

    @cached_property
    def seconds(self) -> NDArray[np.float64]:
        """float64 [F], presentation time of each frame, in seconds after the first one."""
        ticks = (self.pts - self.pts[0]) * self.time_base.numerator
        return np.asarray(ticks / self.time_base.denominator, np.float64)  # rounded once

    @property
    def is_slow(self) -> bool:
        """Whether reading any clip requires reading the file from its beginning, because offsets of packets are unknown."""
        is_known = len(self.packet_offsets) or len(self.packet_places)
        return not is_known and bool(self.packet_sizes.any())

    @property
    def duration_seconds(self) -> float:
        """Seconds from the first frame to the end of the last one."""
        return float((self.pts[-1] - self.pts[0] + self.last_duration) * self.time_base)

    @property
    def fps(self) -> float:
        """Average number of frames per second; 0 for a video without duration."""
        return len(self) / self.duration_seconds if self.duration_seconds else 0.0

    @property
    def constant_rate(self) -> bool:
        """Whether all frames have the same duration, to within one unit of `time_base`."""
        steps = np.diff(self.pts)
        return len(steps) == 0 or bool(steps.max() - steps.min() <= 1)


def count_peculiar(rows: NDArray[Any] | Mapping[str, Any]) -> dict[str, int]:
    """Return the number of videos with each unusual property, by the keys of `WORDS`.

    Args:
        rows: Structured array [videos] of the dtype `readers.video.store.ROW`, of readable videos; or a mapping with the names
            of its fields, for one video.
    """
    flags = {
        "variable rate": np.logical_not(rows["constant_rate"]),
        "turned": rows["rotation"] != 0,
        "interlaced": rows["interlaced"],
        "several streams": rows["num_streams"] > 1,
        "slow": rows["is_slow"],
    }
    return {name: int(np.count_nonzero(which)) for name, which in flags.items()}


def peculiarity_lines(counts: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return pairs of name and text for reports, one for each unusual property whose count is not 0."""
    return [(name, f"{counts[name]:,}: {words}") for name, words in WORDS.items() if counts[name]]


class Segment(NamedTuple):
    """A range of consecutive frames of a video, at least one.

    Attributes:
        first: Index of the first frame, in the order of presentation.
        pts: int64 [n], presentation time of each frame, in units of `time_base`.
        stop: Time at which the last frame ends, in units of `time_base`.
        time_base: Seconds per unit.
    """

    first: int
    pts: NDArray[np.int64]
    stop: int
    time_base: Fraction


def cut(info: VideoInfo, seconds: tuple[float, float] | None) -> Segment:
    """Return the frames of a video whose presentation begins within a span of seconds; all frames if `seconds` is None.

    If no frame begins within the span, the result is the frame that is shown at the start of the span.

    Args:
        info: Metadata of the video.
        seconds: Start and end (exclusive) of the span, counted from the first frame; None is the whole video. They are
            rounded to fractions with denominators up to a million, so that 0.1 is exactly a tenth.

    Raises:
        VideoError: The video ends before the span begins.
    """
    pts, base = info.pts, info.time_base
    end = int(pts[-1]) + max(info.last_duration, 1)
    if seconds is None:
        return Segment(0, pts, end, base)
    start, stop = (Fraction(time).limit_denominator(1_000_000) / base for time in seconds)
    if start >= end - int(pts[0]):
        raise VideoError(
            f"its clip begins at {seconds[0]:g} s, but the video lasts {info.duration_seconds:g} s"
        )
    shown = pts - pts[0]
    first, last = np.searchsorted(shown, [ceil(start), ceil(stop)]).tolist()
    if first == last:
        first = int(np.searchsorted(shown, floor(start), side="right")) - 1
        last = first + 1
    until = max(min(int(pts[0]) + ceil(stop), end), int(pts[last - 1]) + 1)
    return Segment(first, pts[first:last], until, base)
