"""Reading a stream that its container cuts into pieces, from any location on: MPEG-TS, MPEG-PS, Ogg and ASF."""

from collections.abc import Callable, Iterator
from functools import partial

from readers.sample import Payload
from readers.storage.blob.mapped import Parsed, parsed
from readers.video.containers import asf, ogg, program_stream, transport_stream

Piece = tuple[int, int, int]
"""Offset of the container's unit of a piece (a transport packet, a page), and start and stop of the piece."""

Walk = Callable[[Parsed, int], Iterator[Piece]]
"""Yields the pieces from a unit on."""

_BLOCK_BYTES = 1 << 16
"""Bytes that are read from the file at a time."""
_SEARCHED_BYTES = 1 << 17
"""Bytes after a position in which a packet is searched: a unit of MPEG may hold several frames, of 64 KiB together."""

# FFmpeg's name of a container -> function that yields the pieces of a stream.
_WALKS: dict[str, Callable[..., Iterator[Piece]]] = {
    "mpegts": transport_stream.walk,
    "mpeg": program_stream.walk,
    "ogg": ogg.walk,
    "asf": asf.walk,
}
# FFmpeg's name of a container -> function that returns the numbers which that needs.
_NAMED: dict[str, Callable[[Parsed, int, int], tuple[int, ...] | None]] = {
    "mpegts": transport_stream.describe,
    "mpeg": program_stream.describe,
    "ogg": ogg.describe,
    "asf": asf.describe,
}


def wrapping_of(data: Payload, container: str, stream: int, position: int) -> str:
    """Return how a container cuts a stream into pieces, as `VideoInfo.wrapping`; "" if that is unknown.

    Args:
        data: The whole file.
        container: FFmpeg's name of the container.
        stream: The container's own number of the stream.
        position: Offset of its first packet by FFmpeg.
    """
    describe = _NAMED.get(container)
    try:
        numbers = describe(parsed(data), stream, position) if describe else None
    except IndexError:
        numbers = None
    return " ".join([container, *map(str, numbers)]) if numbers else ""


class Strand:
    """The bytes of a stream, read in order from a location on.

    Args:
        data: The whole file.
        wrapping: See `wrapping_of`.
    """

    def __init__(self, data: Payload, wrapping: str) -> None:
        name, *numbers = wrapping.split(" ")
        self._view = parsed(data, _BLOCK_BYTES)
        self._walk: Walk = partial(_WALKS[name], numbers=tuple(map(int, numbers)))
        self._pieces: Iterator[Piece] = iter(())
        self._unit = self._begin = self._stop = 0

    @property
    def location(self) -> tuple[int, int] | None:
        """Offsets of the next unit and byte in the file; None at the end."""
        while self._begin == self._stop:
            if not self._next():
                return None
        return self._unit, self._begin

    def seek(self, unit: int, offset: int | None = None) -> bool:
        """Go to a byte of a unit, or to its first one with None; return whether it exists."""
        self._pieces = self._walk(self._view, unit)
        self._begin = self._stop
        while self._next():
            if offset is None or self._begin <= offset < self._stop:
                self._begin = self._begin if offset is None else offset
                return True
            if self._begin > offset:
                break
        return False

    def read(self, size: int) -> bytes:
        """Return the next bytes; fewer than `size` at the end."""
        parts = []
        while size and self.location:
            stop = min(self._begin + size, self._stop)
            parts.append(self._view[self._begin : stop])
            size -= stop - self._begin
            self._begin = stop
        return b"".join(parts)

    def find(self, content: bytes, position: int) -> tuple[int, int] | None:
        """Search a packet at the current location, else shortly after a position; go to its end and return its location."""
        location = self.location
        if location and self.read(len(content)) == content:
            return location
        if position < 0 or not self.seek(position):
            return None
        begins, parts, size = [], [], 0
        while size < len(content) + _SEARCHED_BYTES and (location := self.location):
            begins.append((size, location))
            parts.append(self.read(self._stop - self._begin))
            size += len(parts[-1])
        at = b"".join(parts).find(content)
        if at < 0:
            return None
        before, (unit, begin) = next(one for one in reversed(begins) if one[0] <= at)
        found = unit, begin + at - before
        self.seek(*found)
        self.read(len(content))
        return found

    def _next(self) -> bool:
        try:
            self._unit, self._begin, self._stop = next(self._pieces)
        except (StopIteration, IndexError):  # a header may be cut off
            self._begin = self._stop
            return False
        return True
