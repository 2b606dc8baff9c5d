"""Headers of AVIF, HEIC, JPEG XL and JPEG 2000: what the libraries that wrote the files were told."""

import struct

import imagecodecs
import numpy as np
import pytest
from PIL import Image

from readers import HeaderError, read_header
from readers.image.header import image_size
from tests.support.boxed_images import FORMATS, SIZE, encode, smooth, turned
from tests.support.kinds import by_pillow

ENCODED = [
    (name, channels, bits)
    for name in FORMATS
    for channels in (1, 3, 4)
    for bits in (8, 10, 12, 16)
    if bits <= 12 or name in ("jxl", "jp2")
    if name != "heic" or bits == 8 or channels < 4
]
"""Formats, channels and bits that the encoders write."""


def changed(data: bytes, old: bytes, new: bytes) -> bytes:
    """A file with the first occurrence of some bytes replaced, which must be there."""
    assert old in data
    return data.replace(old, new, 1)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("name", ["avif", "heic", "jxl"])
def test_orientation_and_upright_size(name: str, orientation: int) -> None:
    """As irot and imir, or the header of the JPEG XL, state them."""
    header = read_header(turned(name, smooth(3), orientation))

    assert header.orientation == orientation
    assert (header.height, header.width) == (SIZE[::-1] if orientation >= 5 else SIZE)


@pytest.mark.parametrize(("name", "channels", "bits"), ENCODED)
def test_bits_and_alpha(name: str, channels: int, bits: int) -> None:
    """Of gray, RGB and RGBA."""
    header = read_header(encode(name, smooth(channels, bits), bits))

    assert (header.format, header.height, header.width) == (name, *SIZE)
    assert (header.bits, header.has_alpha) == (bits, channels == 4)


@pytest.mark.parametrize(
    "size", [(1, 1), (8, 8), (8, 264), (256, 256), (5000, 3), (250, 300), (300, 400), (90, 160)]
)
@pytest.mark.parametrize("name", ["jxl", "jp2"])
def test_sizes(name: str, size: tuple[int, int]) -> None:
    """JPEG XL states sides in blocks, in four lengths of bits, and by a ratio."""
    header = read_header(encode(name, np.zeros(size, np.uint8)))

    assert (header.height, header.width) == size


def test_animations_have_the_size_of_a_frame() -> None:
    frames = np.stack([smooth(3), smooth(3)[::-1]])
    images = [Image.fromarray(frame) for frame in frames]
    avif = by_pillow("AVIF", images[0], save_all=True, append_images=images[1:])

    for data in (avif, bytes(imagecodecs.jpegxl_encode(frames))):
        header = read_header(data)
        assert (header.height, header.width, header.bits) == (*SIZE, 8)


def test_floats_of_jpeg_xl_have_32_bits() -> None:
    assert read_header(bytes(imagecodecs.jpegxl_encode(np.zeros(SIZE, np.float32)))).bits == 32


def palette() -> bytes:
    data = encode("jp2", smooth(1))
    at = data.index(b"colr") - 4
    length = struct.unpack_from(">I", data, data.index(b"jp2h") - 4)[0]
    grown = data[:at] + struct.pack(">I4s", 8, b"pclr") + data[at:]
    where = data.index(b"jp2h") - 4
    return grown[:where] + struct.pack(">I", length + 8) + grown[where + 4 :]


def with_colours(number: int) -> bytes:
    data = encode("jp2", smooth(4))
    at = data.index(b"colr") + 4 + 3
    return data[:at] + struct.pack(">I", number) + data[at + 4 :]


def planes_of_jpeg_xl(count: int) -> bytes:
    planes = np.stack([smooth(1)] * count)
    return bytes(imagecodecs.jpegxl_encode(planes, planar=True, photometric="gray", lossless=True))


REFUSED = {
    "palette": (palette, "jp2 with a palette: convert it to RGB"),
    "CMYK": (lambda: with_colours(12), "jp2 in CMYK: convert it to RGB"),
    "five channels": (
        lambda: bytes(imagecodecs.jpeg2k_encode(smooth(4)[..., [0, 1, 2, 3, 0]], level=0)),
        "jp2 of 5 channels, but 1 to 4 are read",
    ),
    "signed": (
        lambda: bytes(imagecodecs.jpeg2k_encode(smooth(1).astype(np.int16), level=0)),
        "jp2 of signed numbers, but only unsigned ones are read",
    ),
    "4 bits of JPEG 2000": (
        lambda: bytes(imagecodecs.jpeg2k_encode(smooth(1) >> 4, level=0, bitspersample=4)),
        "jp2 of 4 bits, but 8 to 16 are read",
    ),
    "4 bits of JPEG XL": (
        lambda: bytes(imagecodecs.jpegxl_encode(smooth(1) >> 4, lossless=True, bitspersample=4)),
        "jxl of 4 bits, but 8 and more are read",
    ),
    "extra channels of JPEG XL": (lambda: planes_of_jpeg_xl(3), r"jxl with extra channels \(2\)"),
    "one that is not alpha": (
        lambda: planes_of_jpeg_xl(2),
        r"jxl with extra channels \(one that is not alpha\), but only one, alpha, is read",
    ),
    "channels of several kinds": (
        lambda: changed(encode("jp2", smooth(3)), b"\x07\1\1\x07\1\1\x07", b"\x07\1\1\x0b\1\1\x07"),
        "jp2 whose channels differ in bits or sign",
    ),
    "no size": (
        lambda: changed(encode("avif", smooth(3)), b"ispe", b"free"),
        "avif whose primary image has no size",
    ),
    "clean aperture of AVIF": (
        lambda: changed(encode("avif", smooth(3)), b"pixi", b"clap"),
        "avif with a clean aperture",
    ),
    "no primary image": (
        lambda: changed(encode("avif", smooth(3)), b"pitm", b"free"),
        "avif without the box pitm: truncated, damaged or not a still image",
    ),
    "no codestream": (
        lambda: changed(encode("jp2", smooth(3)), b"jp2c", b"free"),
        "jp2 without the box jp2c",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_read_is_named(name: str) -> None:
    make, wanted = REFUSED[name]
    with pytest.raises(HeaderError, match=wanted):
        read_header(make())


@pytest.mark.parametrize("name", FORMATS)
def test_a_header_that_is_cut_off(name: str) -> None:
    """At each byte, the header is refused, or read as of the full file."""
    data = encode(name, smooth(3))
    full = read_header(data)
    sizes = {image_size(data[:end]) for end in range(len(data))}

    assert sizes == {None, (full.height, full.width)}


def test_a_million_boxes_are_not_walked() -> None:
    """The header is looked for in the first 4096 boxes."""
    head = encode("avif", smooth(3))[:32]
    with pytest.raises(HeaderError, match="avif without the box meta"):
        read_header(
            head + struct.pack(">I4s", 8, b"free") * 1_000_000 + encode("avif", smooth(3))[32:]
        )
