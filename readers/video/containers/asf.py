"""Walk through the data packets of ASF, the container of Windows Media (Advanced Systems Format specification 1.20, 5.2)."""

from collections.abc import Iterator

from readers.storage.blob.mapped import Parsed

_FILE_PROPERTIES = bytes.fromhex("a1dcab8c47a9cf118ee400c00c205365")
"""Identifier of the object with the length of packets (specification, 3.2)."""
_HEAD_BYTES = 1 << 16
"""Number of first bytes in which that object is searched; it is part of the header."""
_LENGTHS = (0, 1, 2, 4)
"""Number of bytes of an integer, for each value of the two bits that give its kind."""


def describe(view: Parsed, stream: int, position: int) -> tuple[int, ...] | None:
    """Return what `walk` needs to find a stream; None if its packets have no fixed length.

    Args:
        view: The bytes of the file.
        stream: The container's number of the stream.
        position: Offset of a packet.

    Returns:
        The length of packets in bytes, the offset of packets modulo this length, and the number of the stream.
    """
    at = bytes(view[:_HEAD_BYTES]).find(_FILE_PROPERTIES)
    if at < 0:
        return None
    smallest, largest = (
        int.from_bytes(view[at + offset : at + offset + 4], "little") for offset in (92, 96)
    )
    return (smallest, position % smallest, stream) if smallest == largest > 0 else None


def walk(
    view: Parsed, offset: int, numbers: tuple[int, int, int]
) -> Iterator[tuple[int, int, int]]:
    """Yield the pieces of a stream, from the packet at or after an offset on, each as offsets of its packet, start and stop.

    Args:
        view: The bytes of the file.
        offset: Where to begin.
        numbers: The result of `describe`.
    """
    size, first, stream = numbers
    offset += (first - offset) % size
    while offset + size <= len(view):
        for number, begin, stop in _payloads(view, offset, size):
            if number == stream:
                yield offset, begin, stop
        offset += size


def _payloads(view: Parsed, offset: int, size: int) -> Iterator[tuple[int, int, int]]:
    """Yield the number of the stream, and the start and stop offsets, of each piece in the packet at an offset."""
    at = offset
    if view[at] & 0x80:  # error correction
        at += 1 + (view[at] & 15)
    lengths, properties = view[at], view[at + 1]
    at += 2
    length, at = _number(view, at, lengths >> 5)
    _, at = _number(view, at, lengths >> 1)
    padding, at = _number(view, at, lengths >> 3)
    at += 6  # send time and duration
    end = offset + (length or size) - padding
    count, kind = 1, 0
    if lengths & 1:
        count, kind = view[at] & 63, view[at] >> 6
        at += 1
    for _ in range(count):
        number = view[at] & 127
        at += 1
        for shift in (4, 2):  # number of the object, and offset in it
            _, at = _number(view, at, properties >> shift)
        replicated, at = _number(view, at, properties)
        at += replicated
        stop = end
        if lengths & 1:
            length, at = _number(view, at, kind)
            stop = at + length
        if stop > end:
            return
        if replicated != 1:
            yield number, at, stop
        while replicated == 1 and at < stop:  # complete objects, each after its length
            yield number, at + 1, at + 1 + view[at]
            at += 1 + view[at]
        at = stop


def _number(view: Parsed, offset: int, kind: int) -> tuple[int, int]:
    """Return the integer at an offset, whose length depends on its kind, and the offset after it."""
    stop = offset + _LENGTHS[kind & 3]
    return int.from_bytes(view[offset:stop], "little"), stop
