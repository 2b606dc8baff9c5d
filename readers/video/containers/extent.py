"""Whether a file is as long as its container says, and nothing in its middle is missing."""

from readers.sample import Payload
from readers.video.containers import matroska, ogg
from readers.video.containers.breaks import Break
from readers.video.containers.open import Deadline

_SEGMENT = b"\x18\x53\x80\x67"  # of Matroska
_HEAD_BYTES = 4096
_MOST_BOXES = 1 << 16
_UNKNOWN_SIZES = (0, (1 << 32) - 1)  # of AVI that was written into a pipe
# Of the outermost level. What else stands behind a whole file does not belong to it.
_BOXES = frozenset(
    b"ftyp styp moov mdat moof mfra sidx ssix prft emsg meta uuid udta pdin pnot wide free skip PICT".split()
)


def missing_bytes(data: Payload) -> int:
    """How many bytes are missing at the end of a video, 0 where nothing tells.

    AVI says how long it is, Matroska how long its segment is, and MP4 how long each box is.
    """
    view = memoryview(data)
    head = bytes(view[:_HEAD_BYTES])
    if head[:4] == b"RIFF" and head[8:12] == b"AVI ":
        size = int.from_bytes(head[4:8], "little")
        end = 0 if size in _UNKNOWN_SIZES else 8 + size
    elif head[:4] == matroska.SIGNATURE:
        end = _end_of_segment(head)
    elif head[4:8] in (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip"):
        end = _end_of_boxes(view)
    else:
        return 0
    return max(0, end - len(view))


def find_break(data: Payload, deadline: Deadline) -> Break | None:
    """Return where a Matroska, WebM or Ogg file was overwritten, or something was taken out of it.

    None where nothing tells, and for other containers.

    Raises:
        VideoError: The deadline has passed.
    """
    view = memoryview(data)
    finders = {matroska.SIGNATURE: matroska.find_break, ogg.SIGNATURE: ogg.find_break}
    find = finders.get(bytes(view[:4]))
    return find(view, deadline) if find else None


def _end_of_segment(head: bytes) -> int:
    place = head.find(_SEGMENT) + len(_SEGMENT)
    if place < len(_SEGMENT) or place >= len(head) or not head[place]:
        return 0
    width = 9 - head[place].bit_length()
    size = int.from_bytes(head[place : place + width], "big") & ((1 << 7 * width) - 1)
    is_unknown = size == (1 << 7 * width) - 1  # as of streams that were recorded
    return 0 if is_unknown else place + width + size


def _end_of_boxes(view: memoryview) -> int:
    place = 0
    for _ in range(_MOST_BOXES):
        if place + 8 > len(view):
            break
        size, width = int.from_bytes(view[place : place + 4], "big"), 8
        if size == 1:
            size, width = int.from_bytes(view[place + 8 : place + 16], "big"), 16
        is_known = bytes(view[place + 4 : place + 8]) in _BOXES
        if size < width or not is_known:  # 0: to the end of the file
            break
        place += size
    return place
