"""Read a stream that its container splits into pieces (MPEG-TS, MPEG-PS, Ogg, ASF), from any location on."""

from collections.abc import Callable, Iterator
from functools import partial

from readers.sample import Payload
from readers.storage.blob.mapped import Parsed, parsed
from readers.video.containers import asf, ogg, program_stream, transport_stream

Piece = tuple[int, int, int]
"""A piece of a stream: offset of the container's unit that holds it (a transport packet, a page), and start and stop offset."""

Walk = Callable[[Parsed, int], Iterator[Piece]]
"""A function that yields the pieces of a stream, from the unit at an offset on."""

_BLOCK_BYTES = 1 << 16
"""Number of bytes that are read from the file at a time."""
_SEARCHED_BYTES = 1 << 17
"""Number of bytes in which a packet is searched: a unit of MPEG may hold several frames, of 64 KiB together."""

# For each container, by FFmpeg's name, the function that yields the pieces of a stream.
_WALKS: dict[str, Callable[..., Iterator[Piece]]] = {
    "mpegts": transport_stream.walk,
    "mpeg": program_stream.walk,
    "ogg": ogg.walk,
    "asf": asf.walk,
}
# For each container, by FFmpeg's name, the function that returns the numbers which that function needs.
_NAMED: dict[str, Callable[[Parsed, int, int], tuple[int, ...] | None]] = {
    "mpegts": transport_stream.describe,
    "mpeg": program_stream.describe,
    "ogg": ogg.describe,
    "asf": asf.describe,
}


def wrapping_of(data: Payload, container: str, stream: int, position: int) -> str:
    """Return a text that describes how to find the pieces of a stream, for `VideoInfo.wrapping`; "" if this is unknown.

    Args:
        data: The bytes of the complete file.
        container: FFmpeg's name of the container.
        stream: The container's own number of the stream.
        position: Offset of the stream's first packet, as FFmpeg gives it.
    """
    describe = _NAMED.get(container)
    try:
        numbers = describe(parsed(data), stream, position) if describe else None
    except IndexError:
        numbers = None
    return " ".join([container, *map(str, numbers)]) if numbers else ""


class Strand:
    """Reads the bytes of a stream in order, from any location on.

    Args:
        data: The bytes of the complete file.
        wrapping: The result of `wrapping_of` for the stream.
    """

    def __init__(self, data: Payload, wrapping: str) -> None:
        name, *numbers = wrapping.split(" ")
        self._view = parsed(data, _BLOCK_BYTES)
        self._walk: Walk = partial(_WALKS[name], numbers=tuple(map(int, numbers)))
        self._pieces: Iterator[Piece] = iter(())
        self._unit = self._begin = self._stop = 0

    @property
    def location(self) -> tuple[int, int] | None:
        """Offset of the next byte of the stream in the file, after the offset of the unit that holds it; None at the end."""
        while self._begin == self._stop:
            if not self._next():
                return None
        return self._unit, self._begin

    def seek(self, unit: int, offset: int | None = None) -> bool:
        """Move to a byte of the stream, and return whether it exists.

        Args:
            unit: Offset of the unit that holds the byte.
            offset: Offset of the byte in the file; None moves to the first byte of the stream in this unit or a later one.
        """
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
        """Return the next `size` bytes of the stream; fewer at the end."""
        parts = []
        while size and self.location:
            stop = min(self._begin + size, self._stop)
            parts.append(self._view[self._begin : stop])
            size -= stop - self._begin
            self._begin = stop
        return b"".join(parts)

    def find(self, content: bytes, position: int) -> tuple[int, int] | None:
        """Find a packet by its bytes, move to its end, and return its location; None if it is not found.

        Args:
            content: Bytes of the packet.
            position: Offset of the packet as FFmpeg gives it, after which the packet is searched if it is not at the current
                location; negative if unknown.
        """
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
