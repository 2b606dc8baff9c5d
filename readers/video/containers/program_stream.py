"""The packets of MPEG-PS, as on DVDs (ISO/IEC 13818-1, 2.5.3, and ISO/IEC 11172-1, 2.4.3)."""

from collections.abc import Iterator

from readers.storage.blob.mapped import Parsed

_PREFIX = b"\0\0\1"
_PACK, _SYSTEM = 0xBA, 0xBB
_VIDEO = range(0xE0, 0xF0)
_SEARCHED_BYTES = 1 << 16


def describe(view: Parsed, stream: int, position: int) -> tuple[int, ...] | None:  # noqa: ARG001 - one for all
    """Return the stream's identifier."""
    return (stream & 255,) if stream & 255 in _VIDEO else None


def walk(view: Parsed, place: int, numbers: tuple[int]) -> Iterator[tuple[int, int, int]]:
    """Yield packet, begin and stop of the stream's pieces, from the packet at a place on."""
    [stream] = numbers
    while True:
        if view[place : place + 3] != _PREFIX:
            skipped = bytes(view[place : place + _SEARCHED_BYTES]).find(_PREFIX)
            if skipped < 0:
                return
            place += skipped
        code = view[place + 3]
        if code == _PACK:
            is_second = view[place + 4] >> 6 == 1
            place += 14 + (view[place + 13] & 7) if is_second else 12
        elif code < _SYSTEM:  # the end, or, where bytes are missing, something within a packet
            place += 4
        else:
            stop = place + 6 + (view[place + 4] << 8 | view[place + 5])
            if code == stream and stop <= len(view):
                yield place, _begin(view, place + 6), stop
            place = stop


def _begin(view: Parsed, place: int) -> int:
    """Where the content of a packet begins, whose header is that of MPEG-2 or of MPEG-1."""
    if view[place] >> 6 == 2:
        return place + 3 + view[place + 2]
    while view[place] == 0xFF:
        place += 1
    if view[place] >> 6 == 1:
        place += 2
    stamps = {2: 5, 3: 10}
    return place + stamps.get(view[place] >> 4, 1)
