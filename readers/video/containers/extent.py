"""Compare the length of a video file with the length that its container states."""

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

from readers.storage.blob import Content

_MATROSKA = "matroska,webm"
"""FFmpeg's name of Matroska and WebM."""
_EBML = b"\x1a\x45\xdf\xa3"
"""First bytes of a Matroska file."""
_MICROSECONDS = 1_000_000
"""Units per second of a container's duration in FFmpeg."""
_LEAST_SECONDS = 0.25
"""Differences up to this are no damage: containers round durations, and may leave out the duration of the last frame."""

_SEGMENT = b"\x18\x53\x80\x67"
"""Identifier of the segment, which contains the rest of a Matroska file."""
_HEAD_BYTES = 4096
"""The segment of a Matroska file begins within this number of bytes."""
_MOST_BOXES = 1 << 16
"""Largest number of boxes that are visited, so that a damaged file ends the loop; fragmented MP4 has two boxes per fragment."""
_UNKNOWN_SIZES = (0, (1 << 32) - 1)
"""Sizes that AVI files have if they were written into a pipe."""
# Boxes of the outermost level. Other bytes after a complete file do not belong to it.
_BOXES = frozenset(
    b"ftyp styp moov mdat moof mfra sidx ssix prft emsg meta uuid udta pdin pnot wide free skip PICT".split()
)


class Box(NamedTuple):
    """A box of the outermost level of an MP4 file.

    Attributes:
        kind: Its type, such as b"mdat".
        start: Offset of its content.
        stop: Offset after its last byte, as the file states it.
    """

    kind: bytes
    start: int
    stop: int


def boxes_of(data: Content) -> Iterator[Box]:
    """Yield the boxes of the outermost level of an MP4 file, in their order, up to one that is unknown or has no size."""
    offset = 0
    for _ in range(_MOST_BOXES):
        if offset + 8 > len(data):
            break
        head = bytes(data[offset : offset + 16])
        size, kind, width = int.from_bytes(head[:4], "big"), head[4:8], 8
        if size == 1:
            size, width = int.from_bytes(head[8:16], "big"), 16
        if size < width or kind not in _BOXES:  # 0: to the end of the file
            break
        yield Box(kind, offset + width, offset + size)
        offset += size


def missing_bytes(data: Content) -> int:
    """Return the number of bytes that are missing at the end of a video file; 0 if its container does not state its length.

    AVI states its length, Matroska the length of its segment, and MP4 the length of each box.
    """
    head = bytes(data[:_HEAD_BYTES])
    if head[:4] == b"RIFF" and head[8:12] == b"AVI ":
        size = int.from_bytes(head[4:8], "little")
        end = 0 if size in _UNKNOWN_SIZES else 8 + size
    elif head[:4] == _EBML:
        end = _end_of_segment(head)
    elif head[4:8] in (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip"):
        end = max((box.stop for box in boxes_of(data)), default=0)
    else:
        return 0
    return max(0, end - len(data))


def missing_seconds(container: Any, stream: Any, end_seconds: Fraction) -> float:
    """Return how many seconds are missing at the end of a Matroska or WebM file, by the duration that the file states.

    This detects overwritten bytes, at which FFmpeg stops reading such a file without an error. The result is 0 for other
    containers, if at most a quarter of a second is missing, or if the file states no duration, like unfinished recordings.

    Args:
        container: The open `av.container.InputContainer`.
        stream: The video stream.
        end_seconds: End of the last packet that was read.
    """
    if container.format.name != _MATROSKA:
        return 0
    stated = re.fullmatch(r"(\d+):(\d+):(\d+\.?\d*)", stream.metadata.get("DURATION", ""))
    if stated:
        hours, minutes, seconds = map(float, stated.groups())
        promised = 3600 * hours + 60 * minutes + seconds
    elif len(container.streams) == 1 and container.duration:
        promised = container.duration / _MICROSECONDS
    else:  # a second stream may be longer
        return 0
    missing = promised - float(end_seconds)
    return missing if missing > _LEAST_SECONDS else 0


def _end_of_segment(head: bytes) -> int:
    offset = head.find(_SEGMENT) + len(_SEGMENT)
    if offset < len(_SEGMENT) or offset >= len(head) or not head[offset]:
        return 0
    width = 9 - head[offset].bit_length()
    size = int.from_bytes(head[offset : offset + width], "big") & ((1 << 7 * width) - 1)
    is_unknown = size == (1 << 7 * width) - 1  # in recorded streams
    return 0 if is_unknown else offset + width + size
