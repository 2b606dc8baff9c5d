"""Scan a video: read the metadata of its stream and of all packets, and decode the first frame, or all if necessary."""

import math
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.sample import Payload, ReadersError
from readers.storage.blob import BlobPayload, Content
from readers.storage.unreadable import is_transient
from readers.video.codecs.color_matrices import matrix_of
from readers.video.codecs.units import count_pictures
from readers.video.codecs.vpx import count_vp8, count_vp9
from readers.video.containers.elementary_stream import Strand, wrapping_of
from readers.video.containers.extent import boxes_of, missing_bytes, missing_seconds
from readers.video.containers.open import (
    SCAN_SECONDS,
    Deadline,
    VideoError,
    field_order,
    find_stream,
    open_container,
    prepare_decoder,
    takes_options,
    video_streams,
)
from readers.video.info import HIDDEN, VideoInfo
from readers.video.packets import Learned, learn_frames

_FULL_RANGE = 2  # AVCOL_RANGE_JPEG
_PROGRESSIVE = 1  # AV_FIELD_PROGRESSIVE
_SEARCHED_BYTES = 64  # longer than the headers of blocks and chunks before a packet

# Containers whose time stamps are the times of presentation; others leave them out, or count packets.
_MP4 = "mov,mp4,m4a,3gp,3g2,mj2"
_TRUSTED = frozenset({_MP4, "matroska,webm", "flv"})
_COUNTS = {"vp8": count_vp8, "vp9": count_vp9}  # codecs with packets that show no frame
_INEXACT = frozenset({"h261"})  # decoding from single packets gives only 5 of 25 frames correctly
_NOT_CODED_BYTES = (
    19  # FFmpeg takes packets of MPEG-4 up to this size for pictures that are left out
)
# Seconds by which time must go back between joined recordings: reordered frames go back by less.
_JUMP = Fraction(1, 2)


def scan_video(data: Payload) -> VideoInfo:
    """Return the metadata of a video: all packets are read, and the first frame is decoded, or all frames if necessary.

    All frames are decoded for containers other than MP4, Matroska and FLV, for interlaced video, and if time stamps are missing,
    repeat, go back or contradict the codec's order, the first frame cannot be decoded by itself, packets may hold no frame, or
    all packets claim to be keyframes. The frames are then those that FFmpeg decodes, in its order. If a file consists of several
    joined recordings, their times are shifted so that they follow each other.

    Of a `BlobPayload`, which must be MP4, the tables and the packets of the first frame are read, and every packet counts as one
    frame, as MP4 requires. If all frames must be decoded, it is read from front to back.

    Args:
        data: The bytes of the complete file.

    Raises:
        VideoError: The file holds no video, its first frame cannot be decoded, or the scan takes more than 5 minutes.
        SourceError: PyAV is not installed.
    """
    if not len(data):
        raise VideoError("the file is empty")
    try:
        return _scan_or_video_error(data, Deadline(SCAN_SECONDS))
    except VideoError as error:
        if is_transient(error):
            raise
        lost = missing_bytes(data)
        if not lost or str(lost) in str(error):
            raise
        raise VideoError(f"{error}; the file ends {lost} bytes too early") from None


def _scan_or_video_error(data: Content, deadline: Deadline) -> VideoInfo:
    try:
        return _scan(data, deadline)
    except ReadersError:
        raise
    except Exception as error:  # damaged bytes can raise any error in PyAV
        raise VideoError(f"PyAV: {type(error).__name__}: {error}") from error


def _scan(data: Content, deadline: Deadline) -> VideoInfo:
    if isinstance(data, BlobPayload) and not takes_options():
        data = data.blob.content()
    is_remote = isinstance(data, BlobPayload)
    with open_container(data, deadline) as container:
        if is_remote and container.format.name != _MP4:
            raise VideoError(
                "at a URL only MP4 is read: copy the dataset here, or convert the video"
            )
        stream = find_stream(container)
        described = _describe(container, stream)
        if described["codec"] in _INEXACT:
            raise VideoError(f"its codec, {described['codec']}, is not decoded exactly: convert it")
        rate = Fraction(stream.average_rate or stream.guessed_rate or 25)
        kind = (described["codec"], described["extradata"], described["container"])
        found = _Packets(data, *kind, int(stream.id))
        is_coded_interlaced = field_order(stream) > _PROGRESSIVE
        first = _read(container, stream, None if is_remote else found, deadline)
        if is_remote:
            _list_packets(data, stream.index, found, deadline)
        found.end(
            stream.frames,
            missing_seconds(container, stream, found.end_seconds(described["time_base"])),
        )
        is_joined = found.join(math.ceil(_JUMP / described["time_base"]))
        doubtful = is_joined or _is_doubtful(container, stream, found, first)
    if doubtful and isinstance(data, BlobPayload):
        return _scan(data.blob.content(), deadline)
    if doubtful:
        learned = learn_frames(data, found.sizes, deadline)
        first, times = learned.first, _learned_times(found, learned, described["time_base"], rate)
    else:
        times = found.times()
    return VideoInfo(
        **{**described, **_shape(first), **times},
        interlaced=is_coded_interlaced or bool(first.interlaced_frame),
        damage=found.damage,
        packet_sizes=np.array(found.sizes, np.int32),
        **found.positions_in_file(),
    )


@dataclass
class _Packets:
    """Collects the properties of all packets of a stream, without their bytes.

    `positions` are the offsets that the container gives, -1 if unknown.
    """

    data: Any  # a Payload, or a Content of an MP4 file
    codec: str
    setup: bytes
    container: str
    stream: int
    positions: list[int] = field(default_factory=list)
    pts: list[int | None] = field(default_factory=list)
    dts: list[int | None] = field(default_factory=list)
    durations: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    shown: list[int] = field(default_factory=list)
    keys: list[bool] = field(default_factory=list)
    locations: list[tuple[int, int]] = field(default_factory=list)
    are_whole: bool = True
    wrapping: str = ""
    strand: Strand | None = None
    has_palette: bool = False
    is_cut: bool = False
    damage: str = ""

    def add(self, packet: Any, *, is_read: bool = True) -> None:
        """Add a packet; `is_read` is False if its bytes were not read, so that the container's position and count are taken."""
        if self.sizes and packet.has_sidedata("new_extradata"):
            setup = packet.get_sidedata("new_extradata")
            if not hasattr(setup, "buffer_size"):
                raise VideoError(
                    f"its codec is set up again at packet {len(self.sizes)}, which PyAV before 18.1 cannot compare: "
                    "pip install 'av>=18.1'"
                )
            if bytes(setup) != self.setup:  # recordings may repeat the same setup
                raise VideoError(f"its codec changes its setup at packet {len(self.sizes)}")
        content = bytes(packet) if is_read else b""
        self.positions.append(-1 if packet.pos is None else packet.pos)
        self.pts.append(packet.pts)
        self.dts.append(packet.dts)
        self.durations.append(int(packet.duration or 0))
        self.sizes.append(packet.size)
        has_palette = packet.has_sidedata("palette")
        self.has_palette |= has_palette
        self.keys.append(packet.is_keyframe and has_palette == self.has_palette)
        shown = self._count(content) if is_read else 1
        self.shown.append(0 if packet.is_discard else shown)
        self.is_cut = packet.is_corrupt
        if len(self.sizes) == 1 and is_read:
            self.wrapping = wrapping_of(self.data, self.container, self.stream, self.positions[0])
            self.strand = Strand(self.data, self.wrapping) if self.wrapping else None
        if self.has_palette:  # the palette is stored apart from the packets
            self.are_whole, self.strand = False, None
        if self.are_whole and is_read:
            self._find(self.positions[-1], content)
        elif self.are_whole:
            self.are_whole = self.positions[-1] >= 0
            self.offsets.append(self.positions[-1])
        if self.strand:
            location = self.strand.find(content, self.positions[-1])
            self.locations += [location] if location else []
            self.strand = self.strand if location else None

    def _count(self, content: bytes) -> int:
        if self.codec in ("h264", "hevc"):
            return count_pictures(self.codec, self.setup, content)
        count = _COUNTS.get(self.codec)
        return count(content) if count else 1

    def _find(self, position: int, content: bytes) -> None:
        found = -1
        if position >= 0:
            stop = position + len(content) + _SEARCHED_BYTES
            found = bytes(self.data[position:stop]).find(content)
        self.are_whole = found >= 0
        self.offsets.append(position + found)

    def positions_in_file(self) -> dict[str, Any]:
        """Return the fields of `VideoInfo` that locate the packets in the file, as far as the locations are known."""
        if self.are_whole:
            return {"packet_offsets": np.array(self.offsets, np.int64)}
        nowhere = np.empty(0, np.int64)
        if self.strand is None:
            return {"packet_offsets": nowhere}
        locations = np.array(self.locations, np.int64)
        return {"packet_offsets": nowhere, "packet_places": locations, "wrapping": self.wrapping}

    def end_seconds(self, time_base: Fraction) -> Fraction:
        """Return the time in seconds at which the last packet ends."""
        both = zip(self.pts, self.durations, strict=True)
        return (
            max((stamp + length for stamp, length in both if stamp is not None), default=0)
            * time_base
        )

    def end(self, num_promised: int, missing_seconds: float) -> None:
        """Finish after the last packet: remove a truncated packet, and describe missing parts of the file in `damage`.

        Args:
            num_promised: Number of frames that the container states; 0 if unknown.
            missing_seconds: Number of seconds that are missing at the end.

        Raises:
            VideoError: No packet is left.
        """
        if self.is_cut or missing_seconds:  # the last packet may reach into overwritten bytes
            self._keep(len(self.sizes) - 1)
        lost = missing_bytes(self.data)
        if self.is_cut or lost or missing_seconds or self.damage:
            promised = f" of {num_promised}" if num_promised > len(self.sizes) else ""
            missing = f", {lost} bytes too early" if lost else ""
            missing += f", {missing_seconds:.1f} s too early" if missing_seconds else ""
            cause = f" ({self.damage})" if self.damage else ""
            self.damage = f"the file ends after {len(self.sizes)}{promised} packets{missing}{cause}"
        if not self.sizes:
            raise VideoError(self.damage or "it has no frames")

    def _keep(self, count: int) -> None:
        for column in (self.positions, self.pts, self.dts, self.durations, self.sizes):
            del column[count:]
        for others in (self.offsets, self.shown, self.keys, self.locations):
            del others[count:]

    def join(self, jump: int) -> bool:
        """Shift the times of joined recordings so that they follow each other; return whether the file has several.

        Args:
            jump: Smallest step back in time, in units of the time base, that counts as the begin of another recording.
        """
        breaks, last = [], -HIDDEN
        for number, (stamp, count) in enumerate(zip(self.dts, self.shown, strict=True)):
            if stamp is None or not count:  # edit lists go back to packets that are not shown
                continue
            if stamp < last - jump:
                breaks.append(number)
            last = stamp
        end: int | None = None
        for start, stop in pairwise([0, *breaks, len(self.pts)] if breaks else []):
            stamps = [stamp for stamp in self.pts[start:stop] if stamp is not None]
            shift = end - min(stamps) if stamps and end is not None else 0
            for column in (self.pts, self.dts):
                column[start:stop] = [s if s is None else s + shift for s in column[start:stop]]
            both = zip(self.pts[start:stop], self.durations[start:stop], strict=True)
            end = max((stamp + length for stamp, length in both if stamp is not None), default=end)
        return bool(breaks)

    def times(self) -> dict[str, Any]:
        """Return the fields of `VideoInfo` for presentation times; all time stamps must be present."""
        shown = np.array(self.shown) > 0
        pts = np.array([0 if stamp is None else stamp for stamp in self.pts], np.int64)
        last = int(np.argmax(np.where(shown, pts, np.iinfo(np.int64).min)))
        step = self.durations[last] or _usual_step(pts[shown])
        pts[~shown] = HIDDEN + np.flatnonzero(~shown)
        return {
            "packet_pts": pts,
            "keyframes": np.flatnonzero(self.keys),
            "last_duration": step,
        }


class _WithoutMedia:
    """An MP4 file in which the bytes of packets are zeros, so that listing the packets reads its tables alone."""

    def __init__(self, data: Content) -> None:
        self._data = data
        self._media = [box for box in boxes_of(data) if box.kind == b"mdat"]

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, part: slice) -> Payload:
        start, stop, _ = part.indices(len(self))
        if any(box.start <= start and stop <= box.stop for box in self._media):
            return bytes(stop - start)
        return self._data[part]


def _list_packets(data: Content, stream: int, found: _Packets, deadline: Deadline) -> None:
    """Add all packets of a stream of an MP4 file to `found`, without their bytes."""
    with open_container(_WithoutMedia(data), deadline, parses=False) as container:
        for packet in container.demux(container.streams[stream]):
            deadline.check()
            if packet.size:
                found.add(packet, is_read=False)


def _read(container: Any, stream: Any, found: _Packets | None, deadline: Deadline) -> Any:
    """Return the first frame of a stream, or None if it cannot be decoded by itself.

    All packets are added to `found`; if that is None, reading ends after the first frame.
    """
    import av

    context, first = prepare_decoder(stream), None
    is_trying = True
    try:
        for packet in container.demux(stream):
            deadline.check()
            if packet.size and found is not None:
                found.add(packet)
            if is_trying:
                with suppress(av.FFmpegError):  # the next packet is tried
                    first = next(iter(context.decode(packet if packet.size else None)), None)
                is_trying = first is None
            elif found is None:
                break
    except av.FFmpegError as error:
        deadline.check()
        if found is None:
            return None
        found.damage = f"FFmpeg: {error.strerror}"
    return first


def _is_doubtful(container: Any, stream: Any, found: _Packets, first: Any) -> bool:
    """Return whether all frames must be decoded to find out which frames the video has; see `scan_video`."""
    stamps = [stamp for stamp, count in zip(found.pts, found.shown, strict=True) if count]
    shown = [stamp for stamp in stamps if stamp is not None]
    if first is None or not shown or len(set(shown)) < len(stamps) or max(found.shown) > 1:
        return True
    context = stream.codec_context
    if context.codec.intra_only:
        return False
    has_gaps = context.name == "mpeg4" and min(found.sizes) <= _NOT_CODED_BYTES
    is_reordered = shown != sorted(shown)
    is_other_order = is_reordered != bool(context.has_b_frames)
    is_interlaced = field_order(stream) > _PROGRESSIVE or first.interlaced_frame
    claims_too_much = all(found.keys) and len(found.keys) > 1
    starts_late = not found.keys[0] or min(shown) < (found.pts[0] or 0)
    is_trusted = container.format.name in _TRUSTED
    is_misled = claims_too_much or starts_late or has_gaps or is_other_order
    return not is_trusted or is_interlaced or is_misled


def _learned_times(
    found: _Packets, learned: Learned, time_base: Fraction, rate: Fraction
) -> dict[str, Any]:
    """Return the fields of `VideoInfo` for presentation times, after all frames were decoded.

    Args:
        found: All packets of the video, as listed before decoding.
        learned: The packets whose frames were decoded.
        time_base: Seconds per unit of the time stamps.
        rate: Frames per second, used if time stamps are missing.
    """
    order = np.array(learned.packets, np.int64)
    stamps = _sorted_stamps([found.pts[number] for number in learned.packets])
    if stamps is None:
        stamps = _sorted_stamps([found.dts[number] for number in learned.packets])
    last = found.durations[int(order[-1])]
    if stamps is None:
        stamps, time_base, last = np.arange(len(order)), 1 / rate, 1
    pts = HIDDEN + np.arange(len(found.sizes), dtype=np.int64)
    pts[order] = stamps
    keys = set(np.flatnonzero(found.keys).tolist())
    return {
        "packet_pts": pts,
        "keyframes": np.array(sorted(set(learned.keys) & keys), np.int64),
        "last_duration": last or _usual_step(stamps),
        "time_base": time_base,
    }


def _sorted_stamps(stamps: list[int | None]) -> NDArray[np.int64] | None:
    """Return sorted time stamps, in which repeated ones are increased so that all differ; None if one is missing."""
    if None in stamps:
        return None
    numbers = np.arange(len(stamps), dtype=np.int64)
    ascending = np.sort(np.array(stamps, np.int64))
    return np.asarray(np.maximum.accumulate(ascending - numbers) + numbers)


def _usual_step(pts: NDArray[np.int64]) -> int:
    return int(np.median(np.diff(np.sort(pts)))) if len(pts) > 1 else 1


def _describe(container: Any, stream: Any) -> dict[str, Any]:
    context = stream.codec_context
    tag = context.codec_tag
    return {
        "container": container.format.name,
        "codec": context.codec.canonical_name,
        "decoder": context.name,
        "codec_tag": tag if tag.isprintable() else "",
        "extradata": bytes(context.extradata or b""),
        "time_base": Fraction(stream.time_base),
        "has_audio": bool(container.streams.audio),
        "stream_index": stream.index,
        "num_streams": len(video_streams(container)),
    }


def _shape(first: Any) -> dict[str, Any]:
    turned = _rotation_of(first)
    height, width = first.height, first.width
    return {
        "height": width if turned % 180 else height,
        "width": height if turned % 180 else width,
        "rotation": turned,
        "pixel_format": first.format.name,
        "matrix": matrix_of(first),
        "full_range": int(first.color_range) == _FULL_RANGE,
    }


def _rotation_of(frame: Any) -> int:
    """Return the degrees by which a frame must be turned clockwise to be upright; mirroring left to right is ignored."""
    # FFmpeg gives the counterclockwise rotation of the display.
    turned = int(round(-frame.rotation / 90) * 90 % 360)
    matrix = None
    with suppress(ValueError):  # PyAV has no name for some side data
        matrix = frame.side_data.get("DISPLAYMATRIX")
    if matrix is None:
        return turned
    right, down, _, left, up = np.frombuffer(bytes(matrix), np.int32)[:5].tolist()
    is_mirrored = right * up < down * left
    return (turned + 180) % 360 if is_mirrored and turned % 180 == 0 else turned
