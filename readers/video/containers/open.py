"""Containers opened out of memory, within a time, and their packets."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from readers.detect.registry import require
from readers.image.kinds import HEAD_BYTES, not_video
from readers.sample import Payload, ReadersError
from readers.storage.blob.mapped import copied
from readers.storage.unreadable import reason_of

_BUFFER_BYTES = 1 << 18
_COVERS = ("attached_pic", "timed_thumbnails")
MAX_PIXELS = 1 << 27
"""The most pixels of a frame that is decoded for a first look."""


class VideoError(ReadersError):
    """A file that is no video, or one of which no frame can be had; the text is a short reason."""


class Deadline:
    """A moment after which work on a file is given up.

    Args:
        seconds: Time from now on.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def has_passed(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() > self._end

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Let no time pass in a ``with`` block, in which others work."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._end += time.monotonic() - began

    def check(self) -> None:
        """Raise VideoError when it has passed."""
        if self.has_passed:
            raise VideoError(f"it takes longer than {self.seconds:g} s to look through")


@contextmanager
def open_container(data: Payload, deadline: Deadline) -> Iterator[Any]:
    """Open a file that lies in memory; nothing of it is copied but what is looked at.

    Frames of more than 2**27 pixels are not decoded.

    Yields:
        An `av.container.InputContainer`.

    Raises:
        VideoError: FFmpeg cannot read it, or the deadline has passed.
        SourceError: PyAV is not installed.
    """
    av = require("av", extra="video")
    source = _Source(data, deadline)
    try:
        if reason := not_video(
            source.read(HEAD_BYTES)
        ):  # FFmpeg would make a video of one frame of it
            raise VideoError(reason)
        source.seek(0)
        # FFmpeg is told here, too, since it decodes a little to find out what there is.
        options = {"max_pixels": str(MAX_PIXELS)}
        with av.open(source, buffer_size=_BUFFER_BYTES, options=options) as container:
            yield container
    except av.FFmpegError as error:
        raise VideoError(f"FFmpeg: {error.strerror}") from None
    except (ValueError, MemoryError, OverflowError) as error:
        raise VideoError(f"PyAV: {error}") from None
    except OSError as error:
        raise VideoError(f"the file cannot be read: {reason_of(error)}") from error


def find_stream(container: Any) -> Any:
    """Return the video stream that FFmpeg takes for the best one; never a cover picture.

    That is one that the container calls the default, else the one of the highest bit rate (`av_find_best_stream`).

    Raises:
        VideoError: There is none, or none that can be decoded.
    """
    streams = video_streams(container)
    if not streams:
        types = {"a cover picture" if s.type == "video" else s.type for s in container.streams}
        told = f"video stream, only {', '.join(sorted(types))}" if types else "streams"
        raise VideoError(f"it has no {told}")
    known = [stream for stream in streams if stream.codec_context is not None]
    if not known:
        raise VideoError("its codec is none that FFmpeg knows")
    best = container.streams.best("video")  # which may be a cover, or of a codec that is not known
    others = (stream for stream in known if _is_marked(stream, "default"))
    stream = best if best in known else next(others, known[0])
    height, width = stream.codec_context.height, stream.codec_context.width
    if height * width > MAX_PIXELS:
        raise VideoError(f"its frames of {height} x {width} pixels are too large to look at")
    return stream


def video_streams(container: Any) -> list[Any]:
    """Return the streams of video, cover pictures left out."""
    return [stream for stream in container.streams.video if not _is_marked(stream, *_COVERS)]


def prepare_decoder(stream: Any) -> Any:
    """Return a stream's codec context, with one thread and a bound on the size of frames."""
    context = stream.codec_context
    context.thread_count = 1
    context.thread_type = "NONE"
    context.options = {"max_pixels": str(MAX_PIXELS)}
    return context


SCAN_SECONDS = 300.0
"""For one file. A film of two hours is decoded in this time, where its container does not tell its frames."""


def _is_marked(stream: Any, *marks: str) -> bool:
    """Whether a stream has one of some dispositions, by their names in FFmpeg."""
    from av.stream import Disposition

    return any(stream.disposition & Disposition[mark] for mark in marks)


class _Source:
    """Bytes as the file that PyAV wants."""

    def __init__(self, data: Payload, deadline: Deadline) -> None:
        self._view = memoryview(data)
        self._deadline = deadline
        self._offset = 0

    def read(self, size: int = -1) -> bytes:
        self._deadline.check()
        end = len(self._view) if size < 0 else self._offset + size
        piece = bytes(copied(self._view[self._offset : end]))
        self._offset += len(piece)
        return piece

    def seek(self, offset: int, whence: int = 0) -> int:
        begin = (0, self._offset, len(self._view))[whence]
        if begin + offset < 0:
            raise OSError("an offset before the file")
        self._offset = begin + offset
        return self._offset

    def tell(self) -> int:
        return self._offset
