"""Decode the packets of a video to frames with FFmpeg, through PyAV, and detect damaged frames."""

import threading
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from dali_pipes.errors import DecodeError, error_text
from dali_pipes.video.packet_headers import is_packed
from dali_pipes.video.packets import Run, first_packets
from readers.sample import Payload, SourceError
from readers.storage.unreadable import is_transient
from readers.video import VideoError, VideoInfo, read_packets
from readers.video.codecs.units import count_pictures
from readers.video.containers.open import Deadline, open_container
from readers.video.info import HIDDEN

# Decoders that check before each packet whether to skip it; libdav1d checks once, other decoders never.
_SKIPPING = frozenset({"h264", "hevc", "mpeg1video", "mpeg2video", "mpeg4", "vp8"})

# Decoders that need only `extradata`. For other codecs the container makes the decoder, because it sets more parameters.
_PLAIN = frozenset(
    {"h264", "hevc", "libdav1d", "av1", "vp8", "vp9", "mpeg4", "mjpeg", "mpeg1video", "mpeg2video"}
)

# Decoders that are used again after a run: a new one takes 20 % longer for a short run of AV1, 8 % of H.264. Flushed, they give the
# same frames as new ones, which is tested for these. Others may still contain frames of another clip.
_REUSED = frozenset({"h264", "hevc", "libdav1d"})

# Videos of one dataset mostly share their configuration; each decoder holds the memory of some frames.
_MOST_DECODERS = 4

_THREAD = threading.local()

# Decoders that hide errors by default, and report none for undamaged files. H.264 and MPEG-4 mark damaged frames. HEVC does not,
# and shows in the damaged part what was in memory, such as frames of another video.
_EXPLODING = frozenset({"hevc", "mjpeg"})


class ClipDeadline(Deadline):
    """The time limit for decoding a clip."""

    def check(self) -> None:
        """Raise DecodeError after the time limit."""
        if self.has_passed:
            raise DecodeError(f"it takes longer than {self.seconds:g} s to decode")


class UndecodableError(Exception):
    """FFmpeg refuses a packet; the message gives the reason."""


def decode_run(
    data: Payload, info: VideoInfo, run: Run, deadline: Deadline
) -> Iterator[tuple[int, Any]]:
    """Decode the packets of a run in order.

    Yields:
        The index of each packet and its `av.VideoFrame`, also for packets that are not needed.

    Raises:
        UndecodableError: FFmpeg refuses a packet; the frames before it are yielded first.
        DecodeError: The time limit was exceeded, or the storage failed.
    """
    try:
        with _decoder(data, info, deadline) as context:
            is_sound = True
            for packet, frame in _decode(data, info, run, context, deadline):
                if packet is None or not run.start <= packet < run.stop:
                    raise UndecodableError("FFmpeg gives a frame that belongs to no packet")
                is_sound = is_sound and not frame.is_corrupt
                yield packet, frame
            if is_sound and info.decoder in _REUSED:
                _keep_decoder(info, context)
    except (DecodeError, UndecodableError, ImportError, SourceError):
        raise
    except VideoError as error:
        # Another attempt would fail as well, or hide that the storage fails.
        if is_transient(error):
            raise DecodeError(str(error)) from error
        raise UndecodableError(str(error)) from error
    except Exception as error:  # any other error of PyAV concerns only this video
        raise UndecodableError(f"FFmpeg: {error_text(error)}") from error


def undamaged_frames(
    info: VideoInfo, run: Run, decoded: Iterable[tuple[int, Any]], *, with_others: bool = False
) -> Iterator[tuple[int, Any]]:
    """Yield the frames of a run that are certainly undamaged.

    FFmpeg marks damaged frames, but not frames predicted from them. So a frame counts as undamaged if neither it nor
    any frame decoded before it, from its keyframe on, is marked; it is yielded once all of these were decoded.

    Args:
        info: Metadata of the video.
        run: The decoded packets.
        decoded: Packet indices and `av.VideoFrame`s in presentation order; see `decode_run`.
        with_others: Whether further frames of the run's first group are yielded, too.

    Yields:
        The index and the frame of each needed packet.

    Raises:
        UndecodableError: `decoded` raised it; the undamaged frames before it are yielded first.
    """
    shown = info.packet_pts[run.start : run.stop]
    shown = np.where(shown < HIDDEN, shown, np.iinfo(np.int64).min)
    last_shown = np.maximum.accumulate(shown)  # the maximum over all packets up to each one
    firsts = first_packets(info, np.arange(run.start, run.stop)) - run.start
    damaged = np.zeros(len(shown), bool)
    waiting: dict[int, Any] = {}
    failure: UndecodableError | None = None

    def is_undamaged(row: int, frame: Any) -> bool:
        return not (frame.is_corrupt or damaged[max(int(firsts[row]), 0) : row + 1].any())

    try:
        for packet, frame in decoded:
            row = packet - run.start
            # The frames that an open group shows before its keyframe cannot be decoded from the keyframe, and no other frame
            # needs them.
            damaged[row] |= bool(frame.is_corrupt) and shown[row] >= shown[0]
            if run.needed[row] or (with_others and not firsts[row]):
                waiting[row] = frame
            for ready in [number for number in waiting if last_shown[number] <= shown[row]]:
                picture = waiting.pop(ready)
                if is_undamaged(ready, picture):
                    yield run.start + ready, picture
    except UndecodableError as error:
        failure = error
    for row, frame in waiting.items():
        if is_undamaged(row, frame):
            yield run.start + row, frame
    if failure:
        raise failure


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
        if refused is not None:  # earlier frames are still in the decoder
            with suppress(av.FFmpegError):
                for frame in context.decode(None):
                    if frame.pts != refused:
                        yield frame.pts, frame
        raise UndecodableError(f"FFmpeg: {error.strerror}") from error


def _frames(info: VideoInfo, context: Any, packet: Any) -> list[Any]:
    """Return the frames of a packet; none for a packet without a picture, for which FFmpeg reports an error."""
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
    """Yield packets with their indices as time stamps, and tell the decoder which of them it may skip."""
    import av

    # Skipping a packed packet would also skip the frame that arrives with the next packet.
    skips = info.decoder in _SKIPPING and not is_packed(info.codec, info.extradata)
    is_skipping = False
    within = slice(*np.searchsorted(info.keyframes, [run.start, run.stop]))
    # A set, because an hour of video has thousands of keyframes.
    keys = set(info.keyframes[within].tolist())
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
    """Return a packet with a copy of bytes and the zeros that FFmpeg requires after them.

    Decoders read beyond the end of a packet.
    """
    import av

    packet = av.Packet(len(content))
    packet.update(content)  # type: ignore[arg-type]  # any buffer
    return packet


def stored_size(info: VideoInfo) -> tuple[int, int]:
    """Return height and width of frames before they are turned upright."""
    return (info.width, info.height) if info.rotation % 180 else (info.height, info.width)


@contextmanager
def _decoder(data: Payload, info: VideoInfo, deadline: Deadline) -> Iterator[Any]:
    """Yield a decoder without frames: one that the thread has kept, or a new one."""
    import av

    if info.decoder in _PLAIN & av.codecs_available:
        context: Any = _kept_decoders().pop(_decoder_key(info), None)
        if context is None:
            context = av.CodecContext.create(info.decoder, "r")
            context.extradata = info.extradata
            context = _prepared(context, info)
        yield context
        return
    with open_container(data, deadline) as container:
        yield _prepared(container.streams[info.stream_index].codec_context, info)


def _keep_decoder(info: VideoInfo, context: Any) -> None:
    """Keep a decoder for the next run of the thread, after a run without errors and damage."""
    context.flush_buffers()
    context.skip_frame = "DEFAULT"
    kept = _kept_decoders()
    kept[_decoder_key(info)] = context
    while len(kept) > _MOST_DECODERS:
        del kept[next(iter(kept))]  # the one that was used the longest time ago


def _kept_decoders() -> dict[Hashable, Any]:
    """Return the decoders that the calling thread has kept, the least recently used one first."""
    kept: dict[Hashable, Any] = _THREAD.__dict__.setdefault("decoders", {})
    return kept


def _decoder_key(info: VideoInfo) -> Hashable:
    return info.decoder, info.extradata, stored_size(info)


def _prepared(context: Any, info: VideoInfo) -> Any:
    context.thread_count = 1
    context.thread_type = "NONE"
    height, width = stored_size(info)
    # Coded frames are larger than displayed ones by less than 256 pixels in each direction.
    context.options = {"max_pixels": str((height + 256) * (width + 256))}
    if info.decoder in _EXPLODING:
        context.options = {**context.options, "err_detect": "explode"}
    return context
