"""Feeding packets of a video to FFmpeg's decoder, through PyAV."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from dali_pipes.errors import DecodeError, told
from dali_pipes.video.packet_headers import is_packed
from dali_pipes.video.packets import Run
from readers.sample import Payload, SourceError
from readers.video import VideoError, VideoInfo, read_packets
from readers.video.codecs.units import count_pictures
from readers.video.containers.open import Deadline, open_container

# Decoders that ask before each packet whether it may be passed over; libdav1d asks once, others never.
_SKIPPING = frozenset({"h264", "hevc", "mpeg1video", "mpeg2video", "mpeg4", "vp8"})

# Decoders that want nothing of the container but `extradata`; others are taken with what it says of the stream.
_PLAIN = frozenset(
    {"h264", "hevc", "libdav1d", "av1", "vp8", "vp9", "mpeg4", "mjpeg", "mpeg1video", "mpeg2video"}
)

# Those that hide errors unless told otherwise, and whose sound files have none. H.264, HEVC and MPEG-4 mark the frames.
_EXPLODING = frozenset({"mjpeg"})


class ClipDeadline(Deadline):
    """A moment after which a clip is given up.

    Args:
        seconds: Time from now on.
        info: Metadata of its video, which may be the reason why it takes long.
    """

    def __init__(self, seconds: float, info: VideoInfo | None = None) -> None:
        super().__init__(seconds)
        self._is_slow = info is not None and info.is_slow

    def check(self) -> None:
        """Raise DecodeError when it has passed."""
        if not self.has_passed:
            return
        why = ", since all of its container must be read up to the clip: copy its streams to .mkv or .mp4"
        raise DecodeError(
            f"it takes longer than {self.seconds:g} s to decode{why if self._is_slow else ''}"
        )


class UndecodableError(Exception):
    """FFmpeg refuses a packet; the text says why."""


def decode_run(
    data: Payload, info: VideoInfo, run: Run, deadline: Deadline
) -> Iterator[tuple[int, Any]]:
    """Decode packets one after the other.

    Yields:
        The packet, and its frame; also of packets that are not needed.

    Raises:
        UndecodableError: FFmpeg refuses one; what was decoded before is yielded first.
        DecodeError: The time is up.
    """
    try:
        with _decoder(data, info, deadline) as context:
            for packet, frame in _decode(data, info, run, context, deadline):
                if packet is None or not run.start <= packet < run.stop:
                    raise UndecodableError("FFmpeg gives a frame that belongs to no packet")
                yield packet, frame
    except (DecodeError, UndecodableError, ImportError, SourceError):
        raise
    except VideoError as error:
        raise UndecodableError(str(error)) from error
    except Exception as error:  # whatever it is, it is of this video
        raise UndecodableError(f"FFmpeg: {told(error)}") from error


def _decode(
    data: Payload, info: VideoInfo, run: Run, context: Any, deadline: Deadline
) -> Iterator[tuple[int, Any]]:
    import av

    refused: int | None = None
    try:
        for packet in _packets(data, info, run, context, deadline):
            refused = packet.pts
            for frame in _frames(info, context, packet):
                yield frame.pts, frame
        refused = None
        for frame in context.decode(None):
            yield frame.pts, frame
    except av.FFmpegError as error:
        if refused is not None:
            yield from _rest(context, refused)
        raise UndecodableError(f"FFmpeg: {error.strerror}") from error


def _frames(info: VideoInfo, context: Any, packet: Any) -> list[Any]:
    """Decode a packet; one that holds nothing of a picture is no error, though FFmpeg says so."""
    import av

    try:
        return list(context.decode(packet))
    except av.FFmpegError:
        is_h26x = info.codec in ("h264", "hevc")
        if is_h26x and not count_pictures(info.codec, info.extradata, bytes(packet)):
            return []
        raise


def _packets(
    data: Payload, info: VideoInfo, run: Run, context: Any, deadline: Deadline
) -> Iterator[Any]:
    """Yield packets, numbered by their time stamps, and tell the decoder which it may pass over."""
    import av

    # A packed one that is passed over would take the frame along that comes with the next.
    skips = info.decoder in _SKIPPING and not is_packed(info.codec, info.extradata)
    is_skipping = False
    here = slice(*np.searchsorted(info.keyframes, [run.start, run.stop]))
    keys = set(info.keyframes[here].tolist())  # of an hour there are many
    number = -1
    contents = read_packets(data, info, run.start, run.stop, deadline)
    for number, (content, needed) in enumerate(zip(contents, run.needed.tolist(), strict=False)):
        deadline.check()
        if isinstance(content, av.Packet):
            packet = content
        else:
            packet = padded_packet(content)
            packet.is_keyframe = run.start + number in keys
        packet.pts = run.start + number
        if skips and needed == is_skipping:
            is_skipping = not needed
            context.skip_frame = "NONREF" if is_skipping else "DEFAULT"
        yield packet
    if number + 1 < len(run.needed):
        raise VideoError(f"the container ends after {run.start + number + 1} packets")


def padded_packet(content: Payload) -> Any:
    """Copy bytes into a packet: decoders read on behind the end, where there must be zeros."""
    import av

    packet = av.Packet(len(content))
    packet.update(content)  # type: ignore[arg-type]  # any buffer
    return packet


def _rest(context: Any, refused: int) -> Iterator[tuple[int, Any]]:
    """Yield the frames that wait in the decoder, but for that of the packet that it refused."""
    import av

    with suppress(av.FFmpegError):
        for frame in context.decode(None):
            if frame.pts != refused:
                yield frame.pts, frame


def stored_size(info: VideoInfo) -> tuple[int, int]:
    """Height and width of frames before they are turned."""
    return (info.width, info.height) if info.rotation % 180 else (info.height, info.width)


@contextmanager
def _decoder(data: Payload, info: VideoInfo, deadline: Deadline) -> Iterator[Any]:
    """Make a decoder: 0.2 ms, or a look into the container; nothing of another clip is left in it."""
    import av

    if info.decoder in _PLAIN & av.codecs_available:
        context: Any = av.CodecContext.create(info.decoder, "r")
        context.extradata = info.extradata
        yield _prepared(context, info)
        return
    with open_container(data, deadline) as container:
        yield _prepared(container.streams[info.stream_index].codec_context, info)


def _prepared(context: Any, info: VideoInfo) -> Any:
    context.thread_count = 1
    context.thread_type = "NONE"
    height, width = stored_size(info)
    # Coded frames are larger than shown ones by less than 256 pixels either way.
    context.options = {"max_pixels": str((height + 256) * (width + 256))}
    if info.decoder in _EXPLODING:
        context.options = {**context.options, "err_detect": "explode"}
    return context
