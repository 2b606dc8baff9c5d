"""The packets of MPEG-TS (ISO/IEC 13818-1, 2.4.3): 188 bytes each, with 4 bytes before them on discs and 16 bytes after them in broadcasts."""

from collections.abc import Iterator

from readers.storage.blob.mapped import Parsed

_PACKET_BYTES = 188
"""Length of a packet (2.4.3.2)."""
_STRIDES = (188, 192, 204)
"""Bytes from packet to packet: plain, on discs, in broadcasts."""
_SYNC = 0x47
"""First byte of each packet."""
_NUM_SYNCS = 8
"""Packets that must begin with it to recognise a stride: other bytes do so once in 256^8."""
_MOST_BEFORE = 32
"""Bytes between the offset by FFmpeg and the packet."""
_SEARCHED_BYTES = 1 << 16
"""Bytes in which the next packet is searched if some are missing."""


def describe(view: Parsed, stream: int, position: int) -> tuple[int, ...] | None:
    """Return the bytes from packet to packet, and the stream's identifier."""
    for stride in _STRIDES:
        for begin in range(position, position + _MOST_BEFORE):
            syncs = view[begin : begin + _NUM_SYNCS * stride : stride]
            if len(syncs) and all(sync == _SYNC for sync in syncs):
                return stride, stream
    return None


def walk(view: Parsed, offset: int, numbers: tuple[int, int]) -> Iterator[tuple[int, int, int]]:
    """Yield packet, start and stop of the stream's pieces, from the packet at or after an offset on."""
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
