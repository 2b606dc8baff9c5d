"""Walk through the packets of MPEG-TS (ISO/IEC 13818-1, 2.4.3).

A packet has 188 bytes; discs put 4 bytes before each packet, and broadcasts 16 bytes after it.
"""

from collections.abc import Iterator

from readers.storage.blob.mapped import Parsed

_PACKET_BYTES = 188
"""Length of a packet (2.4.3.2)."""
_STRIDES = (188, 192, 204)
"""Number of bytes from packet to packet: plain, on discs, in broadcasts."""
_SYNC = 0x47
"""First byte of each packet."""
_NUM_SYNCS = 8
"""Number of packets that must begin with this byte to recognise a stride: other bytes do so once in 256^8 cases."""
_MOST_BEFORE = 32
"""Largest number of bytes between the offset that FFmpeg gives and the packet."""
_SEARCHED_BYTES = 1 << 16
"""Number of bytes in which the next packet is searched if bytes are missing."""


def describe(view: Parsed, stream: int, position: int) -> tuple[int, ...] | None:
    """Return the number of bytes from packet to packet, and the stream's identifier, for `walk`; None if no packets are found.

    Args:
        view: The bytes of the file.
        stream: Identifier of the stream.
        position: Offset of the stream's first packet, as FFmpeg gives it.
    """
    for stride in _STRIDES:
        for begin in range(position, position + _MOST_BEFORE):
            syncs = view[begin : begin + _NUM_SYNCS * stride : stride]
            if len(syncs) and all(sync == _SYNC for sync in syncs):
                return stride, stream
    return None


def walk(view: Parsed, offset: int, numbers: tuple[int, int]) -> Iterator[tuple[int, int, int]]:
    """Yield the pieces of a stream, from the packet at or after an offset on, each as offsets of its packet, start and stop.

    Args:
        view: The bytes of the file.
        offset: Where to begin.
        numbers: The result of `describe`.
    """
    stride, stream = numbers
    high, low = stream >> 8, stream & 255
    while offset + _PACKET_BYTES <= len(view):
        if view[offset] != _SYNC:
            skipped = bytes(view[offset : offset + _SEARCHED_BYTES]).find(_SYNC)  # as FFmpeg does
            if skipped < 0:
                return
            offset += skipped
            continue
        flags = view[offset + 1]
        if view[offset + 2] == low and flags & 0x1F == high and view[offset + 3] & 0x10:
            begin = offset + 4
            if view[offset + 3] & 0x20:  # an adaptation field
                begin += 1 + view[begin]
            if flags & 0x40:  # a packet of the elementary stream begins, with a header
                begin += 9 + view[begin + 8]
            stop = offset + _PACKET_BYTES
            if begin < stop:
                yield offset, begin, stop
        offset += stride
