"""The pages of Ogg (RFC 3533, 6)."""

from collections.abc import Iterator

from readers.storage.blob.mapped import Parsed

SIGNATURE = b"OggS"
"""First bytes of a page."""
_HEAD_BYTES = 27
"""Bytes of a page before its table of segments."""


def describe(view: Parsed, stream: int, position: int) -> tuple[int, ...] | None:  # noqa: ARG001 - all containers have one interface
    """Return the serial number of the stream whose page is at a position."""
    if view[position : position + 4] != SIGNATURE:
        return None
    return (int.from_bytes(view[position + 14 : position + 18], "little"),)


def walk(view: Parsed, offset: int, numbers: tuple[int]) -> Iterator[tuple[int, int, int]]:
    """Yield page, start and stop of the stream's pieces, from the page at an offset on."""
    while view[offset : offset + 4] == SIGNATURE:
        begin = offset + _HEAD_BYTES + view[offset + _HEAD_BYTES - 1]
        stop = begin + sum(view[offset + _HEAD_BYTES : begin])
        if int.from_bytes(view[offset + 14 : offset + 18], "little") == numbers[0]:
            yield offset, begin, min(stop, len(view))
        offset = stop
