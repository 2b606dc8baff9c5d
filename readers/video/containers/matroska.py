"""The elements of Matroska and WebM, which say how long they are (RFC 8794 and RFC 9559)."""

import re
from typing import NamedTuple

from readers.video.containers.breaks import Break, is_junk
from readers.video.containers.open import Deadline

SIGNATURE = b"\x1a\x45\xdf\xa3"

_EBML, _SEGMENT, _CLUSTER, _BLOCK_GROUP = 0x1A45DFA3, 0x18538067, 0x1F43B675, 0xA0
_ANYWHERE = frozenset({0xEC, 0xBF})  # Void, CRC-32
_IN_SEGMENT = _ANYWHERE | {
    *(_CLUSTER, 0x114D9B74, 0x1549A966, 0x1654AE6B),  # SeekHead, Info, Tracks
    *(0x1C53BB6B, 0x1941A469, 0x1043A770, 0x1254C367),  # Cues, Attachments, Chapters, Tags
}
_IN_CLUSTER = _ANYWHERE | {
    *(0xE7, 0x5854, 0xA7, 0xAB),  # Timestamp, SilentTracks, Position, PrevSize
    *(0xA3, _BLOCK_GROUP, 0xAF),  # SimpleBlock, EncryptedBlock
}
_KNOWN = _IN_SEGMENT | _IN_CLUSTER
_ELSEWHERE = _KNOWN | {_EBML, _SEGMENT}  # where they are not allowed they are no unknown ones
_CLUSTER_NAME = re.compile(re.escape(_CLUSTER.to_bytes(4, "big")))
_EMPTY = re.compile(rb"(?:\xec\x80)*")  # Void without content
_MOST_UNKNOWN = 16  # one after the other; what was overwritten may by chance go on like elements
_OPEN = 1 << 62  # the end of what does not say where it ends: streams that were recorded
_HEAD_BYTES = 12  # the most that a name and a length take


class _Element(NamedTuple):
    name: int
    content: int
    stop: int


def find_break(view: memoryview, deadline: Deadline) -> Break | None:
    """Return the first place where there should be an element and is none; None for a whole file, or its beginning.

    Raises:
        VideoError: The deadline has passed.
    """
    segment = _find_segment(view)
    if segment is None:
        return None
    place = last = sound = segment.content
    cluster = segment
    inside = view[: segment.stop] if segment.stop < len(view) else view
    while place < len(inside):
        deadline.check()
        parent = cluster if place < cluster.stop else segment
        element = _read(view, place)
        follower = _pass(parent, element, inside, deadline) if element else None
        if element is None or follower is None:
            if _may_end(parent, element, view[place:]):
                return None
            # What was overwritten may begin within an element, and may by chance begin like one.
            return Break(sound, f"there is no element of Matroska at byte {place}")
        if element.name == _CLUSTER:
            cluster = element
        elif element.name in _KNOWN:
            sound, last = last, place
        place = follower
    return None


def _find_segment(view: memoryview) -> _Element | None:
    head = _read(view, 0)
    segment = _read(view, head.stop) if head else None
    return segment if segment and segment.name == _SEGMENT else None


def _read(view: memoryview, place: int) -> _Element | None:
    """Return what its name and its length say of an element; None where there are none."""
    head = bytes(view[place : place + _HEAD_BYTES])
    split = 9 - head[0].bit_length() if head else _HEAD_BYTES
    if split > 4 or split >= len(head) or not head[split]:
        return None
    width = 9 - head[split].bit_length()
    if split + width > len(head):
        return None
    content = place + split + width
    most = (1 << 7 * width) - 1
    length = int.from_bytes(head[split : split + width], "big") & most
    name = int.from_bytes(head[:split], "big")
    return _Element(name, content, _OPEN if length == most else content + length)


def _pass(parent: _Element, element: _Element, view: memoryview, deadline: Deadline) -> int | None:
    """Return where the element stands that is looked at next; None if this one cannot be in a segment or a cluster."""
    names = _IN_SEGMENT if parent.name == _SEGMENT else _IN_CLUSTER
    if parent.stop == _OPEN:
        names = _KNOWN  # a cluster ends where the next one begins
    if element.name not in names:
        return _pass_unknown(parent, element, view, names)
    if (element.stop == _OPEN and element.name != _CLUSTER) or element.stop > parent.stop:
        return None
    if element.name == _CLUSTER:
        return element.content
    is_group = element.name == _BLOCK_GROUP and element.stop <= len(view)
    if is_group and not _is_filled(element, view, deadline):
        return None
    empty = _EMPTY.match(view, element.stop, min(parent.stop, len(view)))
    return max(element.stop, empty.end()) if empty else element.stop


def _pass_unknown(
    parent: _Element, element: _Element, view: memoryview, names: frozenset[int]
) -> int | None:
    """Follow elements that later versions of the format may have up to one that is known, or to their parent's end."""
    end = min(parent.stop, len(view))
    for _ in range(_MOST_UNKNOWN):
        if element.name in _ELSEWHERE or element.stop > end:
            return None
        if _CLUSTER_NAME.search(view, element.content, element.stop):
            return None  # it is longer than it was
        follower = _read(view, element.stop)
        if end - element.stop < _HEAD_BYTES or (follower and follower.name in names):
            return element.stop
        if follower is None:
            return None
        element = follower
    return None


def _is_filled(group: _Element, view: memoryview, deadline: Deadline) -> bool:
    """Whether elements follow each other up to the end of a group."""
    place = group.content
    while place < group.stop:
        deadline.check()
        element = _read(view, place)
        if element is None:
            return False
        place = element.stop
    return place == group.stop


def _may_end(parent: _Element, element: _Element | None, rest: memoryview) -> bool:
    """Whether a file may end here: in the middle of a head, or where a recorded stream is over."""
    if element is None and len(rest) < _HEAD_BYTES:
        return True
    is_next_file = element is not None and element.name == _EBML
    return parent.stop == _OPEN and (is_next_file or is_junk(rest))
