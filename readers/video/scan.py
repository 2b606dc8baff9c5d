"""Looking through a video once: its stream, its packets, and the first frame."""

import io
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.sample import Payload, ReadersError
from readers.video.info import UNSPECIFIED_MATRIX, VideoInfo

_FULL_RANGE = 2  # AVCOL_RANGE_JPEG
_SEARCHED_BYTES = 64  # the heads of blocks and chunks that stand before a packet are shorter
_INVISIBLE_VP8 = 0x10


class VideoError(ReadersError):
    """A file that is no video, or one of which no frame can be had; the text is a short reason."""


def scan_video(data: Payload) -> VideoInfo:
    """Read all packets of a video and decode its first frame.

    Args:
        data: The whole file.

    Raises:
        VideoError: There is no video in it, or its first frame cannot be decoded.
        ModuleNotFoundError: PyAV is not installed.
    """
    import av

    try:
        with av.open(io.BytesIO(data), timeout=_TIMEOUT_SECONDS) as container:
            return _scan(container, data)
    except av.FFmpegError as error:
        raise VideoError(f"FFmpeg: {error.strerror}") from None


_TIMEOUT_SECONDS = 30.0


def _scan(container: Any, data: Payload) -> VideoInfo:
    if not container.streams.video:
        has = ", ".join(sorted({stream.type for stream in container.streams})) or "nothing"
        raise VideoError(f"it has no video stream, only {has}")
    stream = container.streams.video[0]
    context = stream.codec_context
    packets, damage = _packets(container, stream)
    first = _first_frame(context, packets)
    pts = np.array([packet.pts for packet in packets], np.int64)
    offsets = _offsets(packets, data)
    matrix = int(first.colorspace)
    turned = round(-first.rotation / 90) * 90 % 360
    height, width = first.height, first.width
    return VideoInfo(
        container=container.format.name,
        codec=context.codec.canonical_name,
        decoder=context.name,
        codec_tag=context.codec_tag if context.codec_tag.isprintable() else "",
        extradata=bytes(context.extradata or b""),
        height=width if turned % 180 else height,
        width=height if turned % 180 else width,
        rotation=turned,
        pixel_format=first.format.name,
        matrix=UNSPECIFIED_MATRIX if matrix == UNSPECIFIED_MATRIX else matrix,
        full_range=int(first.color_range) == _FULL_RANGE,
        time_base=Fraction(stream.time_base),
        last_duration=int(packets[int(np.argmax(pts))].duration or 0),
        has_audio=bool(container.streams.audio),
        damage=damage,
        packet_pts=pts,
        packet_offsets=offsets,
        packet_sizes=np.array([packet.size for packet in packets], np.int32),
        keyframes=np.flatnonzero([packet.is_keyframe for packet in packets]),
    )


def _packets(container: Any, stream: Any) -> tuple[list[Any], str]:
    import av

    packets: list[Any] = []
    damage = ""
    try:
        for packet in container.demux(stream):
            if packet.size and not packet.is_discard and _is_shown(stream, packet):
                packets.append(packet)
    except av.FFmpegError as error:
        damage = f"FFmpeg: {error.strerror}"
    if not packets:
        raise VideoError(damage or "it has no frames")
    return packets, damage


def _is_shown(stream: Any, packet: Any) -> bool:
    return stream.codec_context.name != "vp8" or bool(bytes(packet)[0] & _INVISIBLE_VP8)


def _first_frame(context: Any, packets: Iterable[Any]) -> Any:
    for packet in [*packets, None]:
        for frame in context.decode(packet):
            return frame
    raise VideoError("no frame can be decoded")


def _offsets(packets: list[Any], data: Payload) -> NDArray[np.int64]:
    """Find the packets' bytes in the file; int64 [0] if one of them does not lie there in one piece."""
    view = memoryview(data)
    offsets = np.empty(len(packets), np.int64)
    for place, packet in enumerate(packets):
        content = bytes(packet)
        if packet.pos is None or packet.pos < 0:
            return np.empty(0, np.int64)
        found = bytes(view[packet.pos : packet.pos + packet.size + _SEARCHED_BYTES]).find(content)
        if found < 0:
            return np.empty(0, np.int64)
        offsets[place] = packet.pos + found
    return offsets
