"""Read the headers of AVIF, HEIC and JPEG 2000, whose files consist of boxes (ISO/IEC 14496-12), without decoding.

Sources: ISO/IEC 23008-12 (HEIF), the AVIF specification 1.1, ISO/IEC 15444-1 (JPEG 2000).
"""

import struct
from collections.abc import Iterator

from readers.sample import HeaderError, Payload

Found = tuple[int, int, int, int, bool]
"""Height and width as stored, EXIF orientation (0 if missing), bits per channel, and whether pixels can be transparent."""
Span = tuple[int, int]
"""First byte of something in a file, and the byte after it."""

# Far more than any image needs; a file of a million empty boxes would take seconds.
_BOXES = 4096
# EXIF orientation by irot (quarter turns anticlockwise) and then imir: without, 0 (top to bottom), 1 (left to right).
_ORIENTATIONS = ((1, 4, 2), (8, 5, 7), (3, 2, 4), (6, 7, 5))
_ALPHA = (b"urn:mpeg:mpegB:cicp:systems:auxiliary:alpha\0", b"urn:mpeg:hevc:2015:auxid:1\0")
_CODESTREAM = b"\xff\x4f\xff\x51"  # of JPEG 2000: start, then the marker of the size


def read_avif(data: Payload) -> Found:
    """Return what the header of an AVIF says; its decoders do not apply the orientation."""
    height, width, orientation, properties, has_alpha = _read_heif(data, "avif")
    if b"clap" in properties:
        raise HeaderError("avif with a clean aperture (clap), which its decoders ignore: crop it")
    flags = data[properties[b"av1C"][0] + 2] if b"av1C" in properties else 0
    # high_bitdepth and twelve_bit of the AV1 configuration
    bits = 8 if not flags & 0x40 else 12 if flags & 0x20 else 10
    return height, width, orientation, bits, has_alpha


def read_heic(data: Payload) -> Found:
    """Return what the header of a HEIC says; libheif applies clean aperture and orientation, but none of EXIF."""
    height, width, orientation, properties, has_alpha = _read_heif(data, "heic")
    if b"clap" in properties:
        across, per, down, per_down = struct.unpack_from(">4I", data, properties[b"clap"][0])
        width, height = across // max(per, 1), down // max(per_down, 1)
    bits = 8 + (data[properties[b"hvcC"][0] + 17] & 7 if b"hvcC" in properties else 0)
    return height, width, orientation, bits, has_alpha


def _read_heif(data: Payload, name: str) -> tuple[int, int, int, dict[bytes, Span], bool]:
    """Return height, width, orientation and properties of the primary image, and whether the file has an alpha image."""
    meta = find_box(data, (0, len(data)), b"meta", name)
    inside = meta[0] + 4, meta[1]  # after version and flags
    at, _ = find_box(data, inside, b"pitm", name)
    (item,) = struct.unpack_from(">I" if data[at] else ">H", data, at + 4)
    described = find_box(data, inside, b"iprp", name)
    every = list(boxes(data, find_box(data, described, b"ipco", name)))
    numbers = [
        number
        for kind, span in boxes(data, described)
        if kind == b"ipma"
        for number in _associated(data, span, item)
    ]
    # The tiles of a grid have the configuration of the codec, not the image itself.
    own = {kind: span for kind, span in reversed(every) if kind in (b"av1C", b"hvcC")}
    own |= dict(every[number - 1] for number in numbers if 1 <= number <= len(every))
    if b"ispe" not in own:
        raise HeaderError(f"{name} whose primary image has no size")
    width, height = struct.unpack_from(">II", data, own[b"ispe"][0] + 4)
    turns = data[own[b"irot"][0]] & 3 if b"irot" in own else 0
    mirror = 1 + (data[own[b"imir"][0]] & 1) if b"imir" in own else 0
    uses = (bytes(data[span[0] + 4 : span[1]]) for kind, span in every if kind == b"auxC")
    has_alpha = any(use.startswith(_ALPHA) for use in uses)
    return height, width, _ORIENTATIONS[turns][mirror], own, has_alpha


def _associated(data: Payload, span: Span, item: int) -> Iterator[int]:
    """Yield the numbers, from 1, of an item's properties in a box of associations."""
    at, end = span
    version, flags = data[at], data[at + 3]
    head = struct.Struct(">IB" if version else ">HB")
    kind, mask = ("H", 0x7FFF) if flags & 1 else ("B", 0x7F)
    at += 8
    while at < end:
        found, count = head.unpack_from(data, at)
        numbers = struct.Struct(f">{count}{kind}")
        if found == item:
            for number in numbers.unpack_from(data, at + head.size):
                yield number & mask
        at += head.size + numbers.size


def read_jp2(data: Payload) -> Found:
    """Return what the size marker of a JPEG 2000 says, in a file of boxes or alone.

    Raises:
        HeaderError: The image has a palette, is CMYK, has more than 4 channels, or channels that are signed, of other than 8 to
            16 bits, or of several kinds.
    """
    at = 0 if data[:4] == _CODESTREAM else _find_codestream(data)
    if data[at : at + 4] != _CODESTREAM:
        raise HeaderError("jp2 whose codestream does not begin with its size")
    right, bottom, left, top = struct.unpack_from(">4I", data, at + 8)
    (channels,) = struct.unpack_from(">H", data, at + 40)
    depths = [data[at + 42 + 3 * channel] for channel in range(min(max(channels, 1), 5))]
    bits = (depths[0] & 127) + 1  # the highest bit is the sign
    faults = {
        f"of {channels} channels, but 1 to 4": not 1 <= channels <= 4,
        "whose channels differ in bits or sign, but only channels of one kind": len({*depths}) > 1,
        "of signed numbers, but only unsigned ones": depths[0] >= 128,
        f"of {bits} bits, but 8 to 16": not 8 <= bits <= 16,
    }
    if fault := next((fault for fault, is_there in faults.items() if is_there), ""):
        raise HeaderError(f"jp2 {fault} are read: convert it")
    return bottom - top, right - left, 0, bits, channels in (2, 4)


def _find_codestream(data: Payload) -> int:
    """Return where the codestream starts, after checking the colours."""
    whole = (0, len(data))
    for kind, (start, _) in boxes(data, find_box(data, whole, b"jp2h", "jp2")):
        # Method 1 names the colour space by a number, 12 is CMYK (ISO/IEC 15444-2).
        is_cmyk = kind == b"colr" and struct.unpack_from(">B2xI", data, start) == (1, 12)
        if kind == b"pclr" or is_cmyk:
            raise HeaderError(
                f"jp2 {'in CMYK' if is_cmyk else 'with a palette'}: convert it to RGB"
            )
    return find_box(data, whole, b"jp2c", "jp2")[0]


def find_box(data: Payload, span: Span, wanted: bytes, name: str) -> Span:
    """Return the place of the contents of the first box of a kind.

    Raises:
        HeaderError: There is none.
    """
    for kind, found in boxes(data, span):
        if kind == wanted:
            return found
    raise HeaderError(
        f"{name} without the box {wanted.decode()}: truncated, damaged or not a still image"
    )


def boxes(data: Payload, span: Span) -> Iterator[tuple[bytes, Span]]:
    """Yield the kind and contents of each box in a part of a file; the last box may be cut off.

    Raises:
        struct.error: A box is shorter than its own head.
    """
    at, end = span
    for _ in range(_BOXES):
        if at + 8 > end:
            return
        length, kind = struct.unpack_from(">I4s", data, at)
        start = at + 8
        if length == 1:
            (length,) = struct.unpack_from(">Q", data, start)
            start += 8
        at = at + length if length else end
        if at < start:
            raise struct.error("a box that is shorter than its own head")
        yield kind, (start, min(at, end))
