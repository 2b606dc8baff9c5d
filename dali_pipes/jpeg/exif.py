"""Read the EXIF orientation of a JPEG in compiled code, by the same rules as ``readers/image/header.py``."""

from gpu_aug.compiled.jit import inlined, inner, load_u8, signed

_TWO, _FOUR = signed(2), signed(4)
BAD = -1
"""Result for an orientation that decoders interpret differently."""

_ORIENTATION_TAG = 274
"""Tag 0x0112 of Exif."""


@inner
def read_orientation(body: int, size: int) -> int:
    """Return the orientation in a JPEG's APP1 segment.

    Args:
        body: Address of the bytes after the segment's length.
        size: Count of these bytes.

    Returns:
        1 to 8 (1 also for an invalid stored value); 0 if the segment states no orientation, so that the next segment
        counts; BAD if decoders disagree on it.
    """
    if size < 6 or not _is_exif(body):
        return 0
    tiff, size = body + 6, size - 6
    if size < 8:
        return 0
    little = load_u8(tiff) == 73 and load_u8(tiff + 1) == 73
    if _read_number(tiff + 2, _TWO, little) != 42:
        return BAD
    directory = _read_number(tiff + 4, _FOUR, little)
    if directory + 2 > size:
        return 0
    num_entries = _read_number(tiff + directory, _TWO, little)
    for entry in range(num_entries):
        start = directory + 2 + 12 * entry
        if start + 10 > size:
            return 0
        if _read_number(tiff + start, _TWO, little) == _ORIENTATION_TAG:
            value = _read_number(tiff + start + 8, _TWO, little)
            # Decoders read two bytes whatever the stored type; for other types they may read another number.
            is_short = _read_number(tiff + start + 2, _TWO, little) in (3, 8)
            if 1 <= value <= 8 and (is_short or little):
                return value
            return 1 if is_short else BAD
        if start + 12 > size or not _fits(tiff + start, size, little):
            return BAD
    return 0


@inlined
def _fits(entry: int, size: int, little: bool) -> bool:
    """Return whether the value of an entry lies inside the segment."""
    kind, count = _read_number(entry + 2, _TWO, little), _read_number(entry + 4, _FOUR, little)
    if kind < 1 or kind > 12:
        return False
    wide = 8 if kind == 5 or kind == 10 or kind == 12 else 4
    narrow = 1 if kind == 1 or kind == 2 or kind == 6 or kind == 7 else 2
    each = narrow if narrow == 1 or kind == 3 or kind == 8 else wide
    return count * each <= 4 or _read_number(entry + 8, _FOUR, little) + count * each <= size


@inlined
def _is_exif(body: int) -> bool:
    word = 0
    for offset in range(6):
        word = word << 8 | signed(load_u8(body + offset))
    return word == 0x457869660000  # "Exif", 0, 0


@inner
def _read_number(address: int, width: int, little: bool) -> int:
    number = 0
    for offset in range(width):
        step = width - 1 - offset if little else offset
        number = number << 8 | signed(load_u8(address + step))
    return number
