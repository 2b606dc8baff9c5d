"""The pages of Ogg, which have numbers and checksums (RFC 3533, 6)."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from readers.storage.blob.mapped import Parsed
from readers.video.containers.breaks import MOST_JUNK_BYTES, Break, is_junk
from readers.video.containers.open import Deadline

SIGNATURE = b"OggS"

_HEAD_BYTES = 27
_NO_PAGE = "there is no page of Ogg"
_FIRST, _LAST = 2, 4
_NO_GRANULE = (1 << 64) - 1
_VIDEO = (b"\x80theora", b"OVP80", b"BBCD")  # Theora, VP8, Dirac: so their first packets begin

# zlib takes the lowest bit of a byte first, Ogg the highest; and it inverts what it begins and ends with.
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
_INVERTED = 0xFFFFFFFF


def find_break(view: memoryview, deadline: Deadline) -> Break | None:
    """Return where pages are missing, damaged or cut off; None where they follow each other to the end.

    Raises:
        VideoError: The deadline has passed.
    """
    streams: dict[int, _Stream] = {}
    place = 0
    while place < len(view):
        deadline.check()
        page = _read_page(view, place)
        wrong = page if isinstance(page, str) else _follow(streams, page, place)
        if isinstance(page, str) or wrong:
            if all(stream.has_ended for stream in streams.values()):
                return None  # what stands behind a whole file does not belong to it
            begun = [one.unfinished for one in streams.values() if one.unfinished is not None]
            if wrong == _NO_PAGE and not begun and _is_behind(view[place:]):
                return None
            return Break(min([place, *begun]), f"{wrong} at byte {place}")
        place = page.stop
    return None


def describe(view: Parsed, stream: int, position: int) -> tuple[int, ...] | None:  # noqa: ARG001 - one for all
    """Return the serial number of the stream whose page is at a position."""
    if view[position : position + 4] != SIGNATURE:
        return None
    return (int.from_bytes(view[position + 14 : position + 18], "little"),)


def walk(view: Parsed, place: int, numbers: tuple[int]) -> Iterator[tuple[int, int, int]]:
    """Yield page, begin and stop of the stream's pieces, from the page at a place on."""
    while view[place : place + 4] == SIGNATURE:
        begin = place + _HEAD_BYTES + view[place + _HEAD_BYTES - 1]
        stop = begin + sum(view[place + _HEAD_BYTES : begin])
        if int.from_bytes(view[place + 14 : place + 18], "little") == numbers[0]:
            yield place, begin, min(stop, len(view))
        place = stop


class _Page(NamedTuple):
    flags: int
    granule: int
    serial: int
    number: int
    lengths: bytes
    content: memoryview
    stop: int


@dataclass
class _Stream:
    """A stream as far as it was read.

    Attributes:
        is_video: Whether pages that are missing matter.
        number: Of the page that comes next.
        has_begun: Whether there was a page behind its headers. Up to it numbers may be missing: who records
            what is sent gets the headers, and then what is sent at that moment.
        has_ended: Whether there was its last page.
        unfinished: Where the page stands on which a packet begins that ends on a later one; None for none.
    """

    is_video: bool
    number: int = 0
    has_begun: bool = False
    has_ended: bool = False
    unfinished: int | None = None

    def add(self, page: _Page, place: int) -> None:
        self.number = (page.number + 1) % (1 << 32)
        self.has_begun |= page.granule not in (0, _NO_GRANULE)
        self.has_ended = bool(page.flags & _LAST)
        begins_here = self.unfinished is None or page.lengths.strip(b"\xff")
        if not page.lengths.endswith(b"\xff"):
            self.unfinished = None
        elif begins_here:
            self.unfinished = place


def _read_page(view: memoryview, place: int) -> _Page | str:
    """Return the page at a place, or what is wrong with it."""
    head = bytes(view[place : place + _HEAD_BYTES])
    if not head.startswith(SIGNATURE[: len(head)]):
        return _NO_PAGE
    lengths = bytes(view[place + _HEAD_BYTES :][: head[-1]])
    begin = place + _HEAD_BYTES + head[-1]
    stop = begin + sum(lengths)
    if len(head) < _HEAD_BYTES or len(lengths) < head[-1] or stop > len(view):
        return "a page of Ogg is cut off"
    granule, serial, number, checksum = (
        int.from_bytes(head[start:end], "little")
        for start, end in ((6, 14), (14, 18), (18, 22), (22, 26))
    )
    without = head[:22] + bytes(4) + head[26:] + lengths + view[begin:stop]
    if _checksum(without) != checksum:
        return "a page of Ogg is damaged"
    return _Page(head[5], granule, serial, number, lengths, view[begin:stop], stop)


def _is_behind(rest: memoryview) -> bool:
    """Whether what is no page stands behind a recording, which has no last page; in a hole there are more of them."""
    if not is_junk(rest):
        return False
    some = bytes(rest[:MOST_JUNK_BYTES])
    renamed = _read_page(memoryview(SIGNATURE + some[len(SIGNATURE) :]), 0)
    return SIGNATURE not in some and isinstance(renamed, str)


def _follow(streams: dict[int, _Stream], page: _Page, place: int) -> str:
    """Add a page to its stream; return why it does not follow those before, "" where it does."""
    stream = streams.get(page.serial)
    if stream is None or page.flags & _FIRST:
        stream = streams[page.serial] = _Stream(bytes(page.content[:7]).startswith(_VIDEO))
    elif stream.is_video and stream.has_begun and page.number != stream.number:
        return f"page {stream.number} of a stream is missing"
    stream.add(page, place)
    return ""


def _checksum(page: bytes) -> int:
    """CRC-32 with the polynomial 0x04C11DB7, without any inversion."""
    reversed_ = zlib.crc32(page.translate(_REVERSED), _INVERTED) ^ _INVERTED
    return int.from_bytes(reversed_.to_bytes(4, "little").translate(_REVERSED), "big")
