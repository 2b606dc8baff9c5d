"""Walk through the packets of MPEG-PS, the format of DVDs (ISO/IEC 13818-1, 2.5.3, and ISO/IEC 11172-1, 2.4.3)."""

from collections.abc import Iterator

from readers.storage.blob.mapped import Parsed

_PREFIX = b"\0\0\1"
"""First bytes of a packet."""
_PACK, _SYSTEM = 0xBA, 0xBB
"""Codes of pack headers and system headers."""
_VIDEO = range(0xE0, 0xF0)
"""Identifiers of video streams."""
_SEARCHED_BYTES = 1 << 16
"""Number of bytes in which the next packet is searched if bytes are missing."""


def describe(view: Parsed, stream: int, position: int) -> tuple[int, ...] | None:  # noqa: ARG001 - all containers have one interface
    """Return the identifier of a video stream, for `walk`, given FFmpeg's number of the stream; None for other streams."""
    return (stream & 255,) if stream & 255 in _VIDEO else None


def walk(view: Parsed, offset: int, numbers: tuple[int]) -> Iterator[tuple[int, int, int]]:
    """Yield the pieces of a stream, from the packet at an offset on, each as offsets of its packet, start and stop.

    Args:
        view: The bytes of the file.
        offset: Offset of the first packet.
        numbers: The result of `describe`.
    """
    [stream] = numbers
    while True:
        if view[offset : offset + 3] != _PREFIX:
            skipped = bytes(view[offset : offset + _SEARCHED_BYTES]).find(_PREFIX)
            if skipped < 0:
                return
            offset += skipped
        code = view[offset + 3]
        if code == _PACK:
            is_second = view[offset + 4] >> 6 == 1
            offset += 14 + (view[offset + 13] & 7) if is_second else 12
        elif code < _SYSTEM:  # the end, or bytes within a packet if some are missing
            offset += 4
        else:
            stop = offset + 6 + (view[offset + 4] << 8 | view[offset + 5])
            if code == stream and stop <= len(view):
                yield offset, _begin(view, offset + 6), stop
            offset = stop


def _begin(view: Parsed, offset: int) -> int:
    """Return the offset of the content of a packet, after its MPEG-2 or MPEG-1 header, which begins at `offset`."""
    if view[offset] >> 6 == 2:
        return offset + 3 + view[offset + 2]
    while view[offset] == 0xFF:
        offset += 1
    if view[offset] >> 6 == 1:
        offset += 2
    stamps = {2: 5, 3: 10}
    return offset + stamps.get(view[offset] >> 4, 1)
