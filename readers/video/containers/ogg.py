"""Walk through the pages of Ogg files (RFC 3533, 6)."""

from collections.abc import Iterator

from readers.storage.blob.mapped import Parsed

SIGNATURE = b"OggS"
"""First bytes of a page."""
_HEAD_BYTES = 27
"""Number of bytes of a page before its table of segments."""


def describe(view: Parsed, stream: int, position: int) -> tuple[int, ...] | None:  # noqa: ARG001 - all containers have one interface
    """Return the serial number of the stream whose page is at a position, for `walk`; None if no page is there."""
    if view[position : position + 4] != SIGNATURE:
        return None
    return (int.from_bytes(view[position + 14 : position + 18], "little"),)


def walk(view: Parsed, offset: int, numbers: tuple[int]) -> Iterator[tuple[int, int, int]]:
    """Yield the pieces of a stream, from the page at an offset on, each as offsets of its page, start and stop.

    Args:
        view: The bytes of the file.
        offset: Offset of the first page.
        numbers: The result of `describe`.
    """
    while view[offset : offset + 4] == SIGNATURE:
        begin = offset + _HEAD_BYTES + view[offset + _HEAD_BYTES - 1]
        stop = begin + sum(view[offset + _HEAD_BYTES : begin])
        if int.from_bytes(view[offset + 14 : offset + 18], "little") == numbers[0]:
            yield offset, begin, min(stop, len(view))
        offset = stop
