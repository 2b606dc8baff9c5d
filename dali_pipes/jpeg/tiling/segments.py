"""The header segments of a JPEG: what stands between the start marker and the compressed pixels.

Layout and names are those of ITU-T T.81, annex B. Anything for which libjpeg would print a warning is
refused here, because a rewritten file must not look sounder than the one it was made from.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from readers.sample import Payload

Reason = Literal[
    "not a JPEG",
    "arithmetic coding",
    "lossless",
    "hierarchical",
    "not 8 bits",
    "height only after the scan",
    "odd components",
    "odd sampling",
    "odd tables",
    "odd scans",
    "metadata after a scan",
    "unfinished progressive",
    "too large",
    "too little data",
    "truncated",
    "damaged",
]

DHT, DQT, DRI, SOS, EOI = 0xC4, 0xDB, 0xDD, 0xDA, 0xD9
_UNSUPPORTED_FRAMES: dict[int, Reason] = {
    0xC3: "lossless",
    0xCB: "lossless",
    **dict.fromkeys((0xC5, 0xC6, 0xC7, 0xCD, 0xCE, 0xCF, 0xDE, 0xDF), "hierarchical"),
    **dict.fromkeys((0xC9, 0xCA, 0xCC), "arithmetic coding"),
}
_FRAMES = (0xC0, 0xC1, 0xC2)
_MAX_SIDE = 65500  # libjpeg's


class Untiled(ValueError):  # noqa: N818 - a verdict, no mistake
    """A JPEG that is left as it is.

    Attributes:
        reason: Why, in a few words from a closed list, so that reasons can be counted.
    """

    def __init__(self, reason: Reason) -> None:
        super().__init__(f"this JPEG cannot be tiled: {reason}")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Segment:
    """A marker and what belongs to it.

    Attributes:
        marker: Second byte of the marker, 0xC0 to 0xFE.
        body: What follows the length; empty for the end marker.
        end: Offset of the first byte behind the segment.
    """

    marker: int
    body: bytes
    end: int

    def __bytes__(self) -> bytes:
        return write_segment(self.marker, self.body)

    @property
    def is_metadata(self) -> bool:
        """Whether it is an application segment or a comment."""
        return 0xE0 <= self.marker <= 0xEF or self.marker == 0xFE


@dataclass(frozen=True, slots=True)
class Component:
    """One colour plane: its name, sampling factors (1 to 4) and number of its quantisation table."""

    name: int
    across: int
    down: int
    table: int


@dataclass(frozen=True, slots=True)
class Frame:
    """The picture's format.

    Attributes:
        marker: 0xC0 (baseline), 0xC1 (extended sequential) or 0xC2 (progressive).
        height: Pixels as stored, before EXIF orientation, 1 to 65500.
        width: The same.
        components: One to four.
    """

    marker: int
    height: int
    width: int
    components: tuple[Component, ...]

    @property
    def across(self) -> int:
        """Largest horizontal sampling factor."""
        return max(component.across for component in self.components)

    @property
    def down(self) -> int:
        """Largest vertical sampling factor."""
        return max(component.down for component in self.components)

    @property
    def mcus(self) -> tuple[int, int]:
        """Rows and columns of minimum coded units of a scan that holds all components."""
        if len(self.components) == 1:  # its sampling factors mean nothing
            return -(-self.height // 8), -(-self.width // 8)
        return -(-self.height // (8 * self.down)), -(-self.width // (8 * self.across))


@dataclass(frozen=True, slots=True)
class Scan:
    """Which coefficients a scan brings.

    Attributes:
        components: Number of each component in the frame.
        tables: For each component the numbers of its DC and AC Huffman tables, 0 to 3.
        first: First coefficient in zigzag order, 0 to 63.
        last: Last one, inclusive.
        high: Bit position that the scan before left (successive approximation), 0 for none.
        low: Lowest bit position that this scan brings.
    """

    components: tuple[int, ...]
    tables: tuple[tuple[int, int], ...]
    first: int
    last: int
    high: int
    low: int


def walk_segments(data: Payload, position: int = 2) -> Iterator[Segment]:
    """Yield segments up to a scan header or the end marker, which are yielded, too.

    Raises:
        Untiled: Where no marker stands, or the data ends first.
    """
    size = len(data)
    while True:
        if position + 2 > size:
            raise Untiled("truncated")
        if data[position] != 0xFF:
            raise Untiled("damaged")
        marker = data[position + 1]
        if marker == 0xFF:  # padding
            position += 1
            continue
        if marker == EOI:
            yield Segment(marker, b"", position + 2)
            return
        if marker < 0xC0 or 0xD0 <= marker <= 0xD8 or 0xF0 <= marker < 0xFE:
            raise Untiled("damaged")
        end = position + 2 + int.from_bytes(data[position + 2 : position + 4], "big")
        if end > size:
            raise Untiled("truncated")
        if end < position + 4:
            raise Untiled("damaged")
        yield Segment(marker, bytes(data[position + 4 : end]), end)
        if marker == SOS:
            return
        position = end


def write_segment(marker: int, body: bytes) -> bytes:
    """Return a segment with its marker and length."""
    return struct.pack(">BBH", 0xFF, marker, 2 + len(body)) + body


def read_frame(segment: Segment) -> Frame:
    """Read a frame header.

    Raises:
        Untiled: If it is none that this package rewrites.
    """
    if segment.marker in _UNSUPPORTED_FRAMES:
        raise Untiled(_UNSUPPORTED_FRAMES[segment.marker])
    body = segment.body
    if segment.marker not in _FRAMES or len(body) < 6 or len(body) != 6 + 3 * body[5]:
        raise Untiled("damaged")
    precision, height, width, count = struct.unpack_from(">BHHB", body)
    if precision != 8:
        raise Untiled("not 8 bits")
    if height == 0:
        raise Untiled("height only after the scan")
    if not 1 <= width <= _MAX_SIDE or height > _MAX_SIDE:
        raise Untiled("damaged")
    components = tuple(
        Component(body[at], body[at + 1] >> 4, body[at + 1] & 15, body[at + 2])
        for at in range(6, len(body), 3)
    )
    if not 1 <= count <= 4 or len({component.name for component in components}) != count:
        raise Untiled("odd components")
    _check_sampling(frame := Frame(segment.marker, height, width, components))
    return frame


def _check_sampling(frame: Frame) -> None:
    blocks = 0
    for component in frame.components:
        if not 1 <= component.across <= 4 or not 1 <= component.down <= 4:
            raise Untiled("damaged")
        if frame.across % component.across or frame.down % component.down:
            raise Untiled("odd sampling")  # libjpeg does not resample by fractions
        blocks += component.across * component.down
    if len(frame.components) > 1 and blocks > 10:  # more than one scan may hold
        raise Untiled("odd sampling")


def write_frame(frame: Frame) -> bytes:
    """Return the frame header as a segment."""
    body = struct.pack(">BHHB", 8, frame.height, frame.width, len(frame.components))
    for part in frame.components:
        body += bytes([part.name, part.across << 4 | part.down, part.table])
    return write_segment(frame.marker, body)


def read_scan(segment: Segment, frame: Frame) -> Scan:
    """Read a scan header; what its numbers mean together is checked where the scan is read.

    Raises:
        Untiled: If it names components that the frame does not have, or tables that cannot be.
    """
    body = segment.body
    if not body or not 1 <= body[0] <= 4 or len(body) != 4 + 2 * body[0]:
        raise Untiled("damaged")
    names = [component.name for component in frame.components]
    asked = body[1:-3:2]
    if len(set(asked)) != len(asked) or not set(asked) <= set(names):
        raise Untiled("odd components")
    tables = tuple((number >> 4, number & 15) for number in body[2:-3:2])
    if max(max(pair) for pair in tables) > 3:
        raise Untiled("odd tables")
    first, last, bits = body[-3:]
    return Scan(
        tuple(names.index(name) for name in asked), tables, first, last, bits >> 4, bits & 15
    )


def read_interval(segment: Segment) -> int:
    """Read a restart interval in minimum coded units, 0 for none.

    Raises:
        Untiled: If the segment has another length.
    """
    if len(segment.body) != 2:
        raise Untiled("damaged")
    return int.from_bytes(segment.body, "big")
