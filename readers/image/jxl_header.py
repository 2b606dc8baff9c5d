"""Read the header of a JPEG XL without decoding. Source: ISO/IEC 18181-1, "Image headers"."""

import struct

from readers.image.box_headers import Found, find_box
from readers.sample import HeaderError, Payload

Forms = tuple[tuple[int, int], ...]

# Ratios of width to height that are named by 1 to 7.
_RATIOS = ((1, 1), (12, 10), (4, 3), (3, 2), (16, 9), (5, 4), (2, 1))
# Fields up to the type of the first extra channel take less.
_BYTES = 128
# The four forms of a side's length in pixels; then those of a preview, in units of 8 pixels and in pixels.
_SIDE: Forms = ((1, 9), (1, 13), (1, 18), (1, 30))
_PREVIEW_BLOCKS: Forms = ((16, 0), (32, 0), (1, 5), (33, 9))
_PREVIEW_SIDE: Forms = ((1, 6), (65, 8), (321, 10), (1345, 12))
# Ticks per second as a fraction, then the number of loops.
_ANIMATION: tuple[Forms, ...] = (
    ((100, 0), (1000, 0), (1, 10), (1, 30)),
    ((1, 0), (1001, 0), (1, 8), (1, 10)),
    ((0, 0), (0, 3), (0, 16), (0, 32)),
)
_BITS: Forms = ((8, 0), (10, 0), (12, 0), (1, 6))
_FLOAT_BITS: Forms = ((32, 0), (16, 0), (24, 0), (1, 6))
_NUM_EXTRA: Forms = ((0, 0), (1, 0), (2, 4), (1, 12))
_TYPE: Forms = ((0, 0), (1, 0), (2, 4), (18, 6))


class _Bits:
    """Reads numbers from bits, the lowest bit of each byte first."""

    def __init__(self, data: bytes) -> None:
        self._value, self._left = int.from_bytes(data, "little"), 8 * len(data)

    def take(self, count: int = 1) -> int:
        """Return an integer of so many bits."""
        self._left -= count
        if self._left < 0:
            raise struct.error("after the last byte")
        taken = self._value & ((1 << count) - 1)
        self._value >>= count
        return taken

    def number(self, forms: Forms) -> int:
        """Return a number of one of four forms: a constant, plus an integer of so many bits."""
        constant, count = forms[self.take(2)]
        return constant + self.take(count)


def read_jxl(data: Payload) -> Found:
    """Return what the header of a JPEG XL says; libjxl applies the orientation when it decodes.

    Raises:
        HeaderError: The image has extra channels that are not one alpha channel, or fewer than 8 bits.
    """
    bits = _Bits(bytes(data[_codestream(data) + 2 :][:_BYTES]))
    height, width = _read_size(bits)
    if bits.take():  # all further values are the usual ones
        return height, width, 0, 8, False
    orientation = _read_extra_fields(bits) if bits.take() else 1
    depth = _read_depth(bits)
    bits.take()  # whether 16 bits suffice for the decoder's own numbers
    num_extra = bits.number(_NUM_EXTRA)
    # A set bit stands for an alpha channel of 8 bits; 0 is the type of other alpha channels.
    if num_extra > 1 or (num_extra and not bits.take() and bits.number(_TYPE)):
        raise HeaderError(
            "jxl with other extra channels than one for alpha (such as CMYK): convert it"
        )
    if depth < 8:
        raise HeaderError(f"jxl of {depth} bits per channel, but 8 to 16 are read: convert it")
    return height, width, orientation, depth, num_extra == 1


def _codestream(data: Payload) -> int:
    """Return where the codestream starts: at the first byte, or in a box, of which it may take several (jxlp)."""
    if data[:2] == b"\xff\x0a":
        return 0
    whole = (0, len(data))
    try:
        at, _ = find_box(data, whole, b"jxlc", "jxl")
    except HeaderError:
        at = find_box(data, whole, b"jxlp", "jxl")[0] + 4  # after the number of the part
    if data[at : at + 2] != b"\xff\x0a":
        raise HeaderError("jxl whose codestream has another signature")
    return at


def _read_size(bits: _Bits, blocks: Forms | None = None, side: Forms = _SIDE) -> tuple[int, int]:
    """Return height and width; `blocks` are the forms of sides in units of 8 pixels, None for an integer of 5 bits."""
    in_blocks = bits.take()

    def read_side() -> int:
        if in_blocks:
            return 8 * (bits.number(blocks) if blocks else 1 + bits.take(5))
        return bits.number(side)

    height, ratio = read_side(), bits.take(3)
    across, down = _RATIOS[ratio - 1]
    return height, height * across // down if ratio else read_side()


def _read_extra_fields(bits: _Bits) -> int:
    """Return the orientation, and skip the intrinsic size, the preview and the animation."""
    orientation = 1 + bits.take(3)
    if bits.take():
        _read_size(bits)
    if bits.take():
        _read_size(bits, _PREVIEW_BLOCKS, _PREVIEW_SIDE)
    if bits.take():
        for forms in _ANIMATION:
            bits.number(forms)
        bits.take()  # whether frames have time codes
    return orientation


def _read_depth(bits: _Bits) -> int:
    if not bits.take():
        return bits.number(_BITS)
    depth = bits.number(_FLOAT_BITS)
    bits.take(4)  # bits of the exponent
    return depth
