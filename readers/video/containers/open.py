"""Open video containers from bytes with PyAV, with a time limit."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from readers.detect.registry import require
from readers.image.kinds import HEAD_BYTES, not_video
from readers.sample import ReadersError
from readers.storage.blob import Content, ContentFile
from readers.storage.unreadable import reason_of

_BUFFER_BYTES = 1 << 18
"""Number of bytes that FFmpeg reads at a time through Python: fewer calls than with its default of 32 kB."""
_COVERS = ("attached_pic", "timed_thumbnails")
"""FFmpeg's dispositions of streams that hold cover pictures or thumbnails."""
_FIRST_SAFE_OPTIONS = (17, 1)
"""The first PyAV whose options for a file may be used; see `open_container`."""
MAX_PIXELS = 1 << 27
"""Largest number of pixels of a frame that is decoded for a scan: a header may claim any size."""


class VideoError(ReadersError):
    """A file is not a video, or its frames cannot be decoded; the text is a short reason."""


class Deadline:
    """A time limit for the work on a file, which begins now.

    Args:
        seconds: The limit in seconds.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def has_passed(self) -> bool:
        """Whether the time limit has passed."""
        return time.monotonic() > self._end

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Do not count the time of the with block against the limit: the code in it is not the decoder's."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._end += time.monotonic() - began

    def check(self) -> None:
        """Raise a VideoError if the time limit has passed."""
        if self.has_passed:
            raise VideoError(f"it takes longer than {self.seconds:g} s to look through")


@contextmanager
def open_container(data: Content, deadline: Deadline, *, parses: bool = True) -> Iterator[Any]:
    """Open the bytes of a video file as a container during the with block; only the parts that FFmpeg reads are copied.

    Frames of more than 2**27 pixels are not decoded.

    Args:
        data: The bytes of the complete file.
        deadline: Time limit for the block.
        parses: Whether the bytes of packets are parsed; if not, times and keyframes are those that the container states. False
            needs PyAV with `takes_options`.

    Yields:
        An `av.container.InputContainer`.

    Raises:
        VideoError: FFmpeg cannot read the file, or the deadline has passed.
        SourceError: PyAV is not installed.
    """
    av = require("av", extra="video")
    source = _Source(data, deadline)
    try:
        # FFmpeg would take a picture for a video of one frame.
        if reason := not_video(source.read(HEAD_BYTES)):
            raise VideoError(reason)
        source.seek(0)
        # FFmpeg decodes some frames when it opens a file, so the limit is set here as well. Not with older PyAV: FFmpeg then reads
        # beyond its options where a file has more streams than its header names, which ends the process.
        options = {"max_pixels": str(MAX_PIXELS)} if takes_options() else {}
        options |= {} if parses else {"fflags": "noparse+nofillin"}
        with av.open(source, buffer_size=_BUFFER_BYTES, options=options) as container:
            yield container
    except av.FFmpegError as error:
        raise VideoError(f"FFmpeg: {error.strerror}") from None
    except (ValueError, MemoryError, OverflowError) as error:
        raise VideoError(f"PyAV: {error}") from None
    except OSError as error:
        raise VideoError(f"the file cannot be read: {reason_of(error)}") from error


def takes_options() -> bool:
    """Return whether the installed PyAV can be given options for a file; see `open_container`."""
    version = require("av", extra="video").__version__
    return tuple(map(int, version.split(".")[:2])) >= _FIRST_SAFE_OPTIONS


def find_stream(container: Any) -> Any:
    """Return the video stream of a container that is read; cover pictures are ignored.

    It is the stream that FFmpeg considers the best: the default stream, else the one with the highest bit rate
    (`av_find_best_stream`).

    Raises:
        VideoError: The container has no video stream, or none that can be decoded.
    """
    streams = video_streams(container)
    if not streams:
        types = {"a cover picture" if s.type == "video" else s.type for s in container.streams}
        missing = f"video stream, only {', '.join(sorted(types))}" if types else "streams"
        raise VideoError(f"it has no {missing}")
    known = [stream for stream in streams if stream.codec_context is not None]
    if not known:
        raise VideoError("its codec is none that FFmpeg knows")
    best = container.streams.best("video")  # it may be a cover, or of an unknown codec
    others = (stream for stream in known if _is_marked(stream, "default"))
    stream = best if best in known else next(others, known[0])
    height, width = stream.codec_context.height, stream.codec_context.width
    if height * width > MAX_PIXELS:
        raise VideoError(f"its frames of {height} x {width} pixels are too large to look at")
    return stream


def video_streams(container: Any) -> list[Any]:
    """Return the video streams of a container, without cover pictures."""
    return [stream for stream in container.streams.video if not _is_marked(stream, *_COVERS)]


def field_order(stream: Any) -> int:
    """Return FFmpeg's order of the fields of a stream: 0 if it is unknown, as with PyAV before 18.1, and 1 for progressive video."""
    return int(getattr(stream.codec_context, "field_order", 0))


def prepare_decoder(stream: Any) -> Any:
    """Return the decoder of a stream (its codec context), set to one thread and to a limit on the size of frames."""
    context = stream.codec_context
    context.thread_count = 1
    context.thread_type = "NONE"
    context.options = {"max_pixels": str(MAX_PIXELS)}
    return context


SCAN_SECONDS = 300.0
"""Time limit for the scan of one file: enough to decode a film of two hours, if all of its frames must be decoded."""


def _is_marked(stream: Any, *marks: str) -> bool:
    """Return whether a stream has one of these FFmpeg dispositions, such as "default"."""
    from av.stream import Disposition

    return any(stream.disposition & Disposition[mark] for mark in marks)


class _Source(ContentFile):
    """A file object for PyAV over the bytes of a video, which checks the time limit."""

    def __init__(self, data: Content, deadline: Deadline) -> None:
        super().__init__(data)
        self._deadline = deadline

    def read(self, size: int | None = -1, /) -> bytes:
        self._deadline.check()
        return super().read(size)
