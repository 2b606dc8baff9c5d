"""Read the header of a JPEG XL without decoding. Source: ISO/IEC 18181-1, "Image headers"."""

import struct

from readers.image.box_headers import Found, boxes
from readers.sample import HeaderError, Payload

# Ratios of width to height that are named by 1 to 7.
_RATIOS = ((1, 1), (12, 10), (4, 3), (3, 2), (16, 9), (5, 4), (2, 1))
# Fields up to the type of the first extra channel take less.
_BYTES = 128


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

    def number(self, *forms: tuple[int, int]) -> int:
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
    num_extra = bits.number((0, 0), (1, 0), (2, 4), (1, 12))
    # A set bit stands for an alpha channel of 8 bits; 0 is the type of other alpha channels.
    has_other = num_extra == 1 and not bits.take() and bits.number((0, 0), (1, 0), (2, 4), (18, 6))
    if depth < 8:
        raise HeaderError(f"jxl of {depth} bits, but 8 and more are read: convert it")
    if has_other or num_extra > 1:
        more = "one that is not alpha" if has_other else f"{num_extra}"
        raise HeaderError(
            f"jxl with extra channels ({more}), but only one, alpha, is read: convert it"
        )
    return height, width, orientation, depth, num_extra == 1


def _codestream(data: Payload) -> int:
    """Return where the codestream starts: at the first byte, or in a box, of which it may take several (jxlp)."""
    if data[:2] == b"\xff\x0a":
        return 0
    for kind, (start, _) in boxes(data, (0, len(data))):
        if kind in (b"jxlc", b"jxlp"):
            return start + (4 if kind == b"jxlp" else 0)  # after the number of the part
    raise HeaderError("jxl without a codestream: truncated or damaged")


def _read_size(bits: _Bits) -> tuple[int, int]:
    """Return height and width."""
    in_blocks = bits.take() == 1
    height, ratio = _read_side(bits, in_blocks), bits.take(3)
    across, down = _RATIOS[ratio - 1]
    return height, height * across // down if ratio else _read_side(bits, in_blocks)


def _read_side(bits: _Bits, in_blocks: bool) -> int:
    """Return a height or width in pixels; it may be stored in blocks of 8."""
    if in_blocks:
        return 8 * (1 + bits.take(5))
    return bits.number((1, 9), (1, 13), (1, 18), (1, 30))


def _read_extra_fields(bits: _Bits) -> int:
    """Return the orientation, and skip the intrinsic size and the animation.

    Raises:
        HeaderError: There is a preview, which hardly any file has.
    """
    orientation = 1 + bits.take(3)
    if bits.take():
        _read_size(bits)
    if bits.take():
        raise HeaderError("jxl with a preview in its codestream, which is not read: convert it")
    if bits.take():
        bits.number((100, 0), (1000, 0), (1, 10), (1, 30))  # ticks per second: a fraction
        bits.number((1, 0), (1001, 0), (1, 8), (1, 10))
        bits.number((0, 0), (0, 3), (0, 16), (0, 32))  # loops
        bits.take()  # whether frames have time codes
    return orientation


def _read_depth(bits: _Bits) -> int:
    if not bits.take():
        return bits.number((8, 0), (10, 0), (12, 0), (1, 6))
    depth = bits.number((32, 0), (16, 0), (24, 0), (1, 6))
    bits.take(4)  # bits of the exponent
    return depth
