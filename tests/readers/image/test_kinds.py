"""What bytes are, by the bytes."""

import gzip
import io
import struct
import zipfile

import imagecodecs
import numpy as np
import pytest
import tifffile
from PIL import Image

from readers import HeaderError, Sample, read_header
from readers.image.kinds import kind_of
from readers.prepare.inspection.kind import is_video
from tests.support.tars import tar_of

PIXELS = np.random.default_rng(0).integers(0, 256, (24, 40, 3), dtype=np.uint8)


def encoded(kind: str, **options: object) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(PIXELS).save(stream, kind, **options)
    return stream.getvalue()


def brands(major: bytes, *others: bytes) -> bytes:
    content = major + bytes(4) + b"".join(others)
    return struct.pack(">I", len(content) + 8) + b"ftyp" + content + bytes(40)


def zipped() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("a.jpg", encoded("JPEG"))
    return stream.getvalue()


def raw(maker: bytes) -> bytes:
    """A TIFF with a thumbnail in the first directory, as raw files have."""
    return encoded("TIFF", tiffinfo={254: 1, 330: 8, 271: maker.decode()})


IMAGES: dict[str, tuple[str, bytes]] = {
    "avif": ("avif", imagecodecs.avif_encode(PIXELS)),
    "avif sequence": ("avif", brands(b"avis", b"avif", b"msf1", b"iso8")),
    "avif by its second brand": ("avif", brands(b"mif1", b"miaf", b"avif")),
    "heic": ("heic", brands(b"heic", b"mif1", b"heic")),
    "heic by its second brand": ("heic", brands(b"mif1", b"heic")),
    "heic of a camera": ("heic", brands(b"MiHE", b"mif1", b"MiHE", b"heix")),
    "heic of one picture": ("heic", brands(b"1pic", b"mif1", b"heic")),
    "heic of the general brand": ("heic", brands(b"heif", b"mif1", b"miaf", b"heic")),
    "heic of the second edition": ("heic", brands(b"mif2", b"mif1", b"heic")),
    "heic with identifiers": ("heic", brands(b"unif", b"mif1", b"heic")),
    "heic of an unknown brand": ("heic", brands(b"ABCD", b"mif1", b"heic")),
    "heic behind many brands": ("heic", brands(b"mif1", *[b"XXXX"] * 40, b"heic")),
    "avif of a profile": ("avif", brands(b"MA1B", b"mif1", b"miaf", b"avif")),
    "avif before heic": ("avif", brands(b"mif1", b"avif", b"heic")),
    "heic sequence": ("heic", brands(b"hevc", b"msf1", b"hevc")),
    "jpeg xl": ("jxl", imagecodecs.jpegxl_encode(PIXELS, usecontainer=False)),
    "jpeg xl in a container": ("jxl", imagecodecs.jpegxl_encode(PIXELS, usecontainer=True)),
    "jpeg 2000": ("jp2", encoded("JPEG2000")),
    "jpeg 2000 codestream": ("jp2", encoded("JPEG2000", no_jp2=True)),
}
PICTURES: dict[str, tuple[str, bytes]] = {
    "heif": ("HEIF", brands(b"mif1", b"miaf")),
    "heif of an unknown brand": ("HEIF", brands(b"ABCD", b"mif1")),
    "brands after the box": ("HEIF", brands(b"mif1", b"miaf")[:-40] + b"heic" + bytes(36)),
    "old jpeg 2000": ("JPEG 2000 of an old kind", b"\0\0\0\x0cjP\x1a\x1a\r\n\x87\n" + bytes(40)),
    "icon": ("an icon (ICO)", encoded("ICO", sizes=[(16, 16)])),
    "photoshop": ("Photoshop (PSD)", b"8BPS\0\1" + bytes(20)),
    "svg": ("SVG", b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"/>'),
    "svg with a comment": ("SVG", b"<!-- made by hand -->\n<svg></svg>"),
    "pdf": ("PDF", b"%PDF-1.7\n"),
    "canon": ("a camera raw file (CR2)", b"II*\0\x10\0\0\0CR\2\0" + bytes(40)),
    "nikon": ("a camera raw file (NEF)", raw(b"NIKON CORPORATION")),
    "sony": ("a camera raw file (ARW)", raw(b"SONY")),
    "another raw": ("a camera raw file (TIFF)", raw(b"Unknown")),
    "fuji": ("a camera raw file (RAF)", b"FUJIFILMCCD-RAW 0201"),
    "olympus": ("a camera raw file (ORF)", b"IIRO\x08\0\0\0"),
    "panasonic": ("a camera raw file (RW2)", b"IIU\0\x18\0\0\0"),
    "canon 3": ("a camera raw file (CR3)", brands(b"crx ", b"crx ", b"isom")),
    "dng": ("a camera raw file (DNG)", encoded("TIFF", tiffinfo={50706: b"\1\4\0\0"})),
    "dicom": ("DICOM", bytes(128) + b"DICM"),
    "openexr": ("OpenEXR", b"v/1\1\2\0\0\0"),
    "pam": ("PAM or PFM", b"P7\nWIDTH 4\n"),
}
VIDEOS = {
    "mp4": brands(b"isom", b"iso2", b"avc1", b"mp41"),
    "quicktime": brands(b"qt  "),
    "mp4 with brands of images": brands(b"isom", b"mp41", b"mif1", b"heic", b"avif"),
    "m4v with brands of images": brands(b"M4V ", b"heic"),
    "mp4 of an unknown brand": brands(b"ABCD", b"isom", b"mp42"),
    "motion jpeg 2000": b"\0\0\0\x0cjP  \r\n\x87\n" + brands(b"mjp2"),
    "mov without brands": b"\0\0\0\x08wide\0\0\1\0mdat",
    "matroska": b"\x1aE\xdf\xa3" + bytes(8),
    "avi": b"RIFF\0\0\0\0AVI LIST",
    "transport stream": (b"G" + bytes(187)) * 3,
    "flv": b"FLV\1\5",
}
OTHERS: dict[str, tuple[str, bytes]] = {
    "web page": ("a web page", b"\n<!doctype HTML>\n<html><head><title>404"),
    "message of a store": ("XML", b'<?xml version="1.0"?>\n<Error><Code>AccessDenied</Code>'),
    "git lfs": ("git lfs pull", b"version https://git-lfs.github.com/spec/v1\noid sha256:12\n"),
    "gzip": ("gzip: decompress", gzip.compress(encoded("JPEG"))),
    "zip": ("ZIP", zipped()),
    "tar": ("tar archive", tar_of([("a.jpg", b"")])),
}


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_that_are_not_read_are_named(name: str) -> None:
    """With what to do, and as no video, whatever they are called."""
    kind, data = PICTURES[name]
    with pytest.raises(HeaderError, match="which is not read: convert it") as caught:
        read_header(data)

    assert str(caught.value) == f"{kind}, which is not read: convert it to JPEG, PNG or WebP"
    assert not is_video(Sample(0, "a", {"picture": data}, image_field="picture"))


@pytest.mark.parametrize("name", IMAGES)
def test_images_in_boxes_are_no_videos(name: str) -> None:
    """AVIF and HEIC begin like MP4, whatever the column is called."""
    kind, data = IMAGES[name]
    found = kind_of(data)

    assert found is not None
    assert (found.family, found.name) == ("image", kind)
    assert not is_video(Sample(0, "a", {"column": data}, image_field="column"))


@pytest.mark.parametrize("name", VIDEOS)
def test_videos_are_told_by_their_bytes(name: str) -> None:
    """In a column of any name."""
    with pytest.raises(HeaderError, match="not an image but a video"):
        read_header(VIDEOS[name])

    assert is_video(Sample(0, "a", {"column": VIDEOS[name]}, image_field="column"))


@pytest.mark.parametrize("name", OTHERS)
def test_other_files_are_named(name: str) -> None:
    """With what became of the image that should be there."""
    what, data = OTHERS[name]
    with pytest.raises(HeaderError, match=f"not an image but .*{what}|not an image but.*: {what}"):
        read_header(data)

    assert not is_video(Sample(0, "a", {"column": data}, image_field="column"))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM"])
def test_images_are_told_as_their_header_is(kind: str) -> None:
    """The one table of signatures serves both."""
    data = encoded(kind)
    found = kind_of(data)

    assert found is not None
    assert (found.family, found.name) == ("image", read_header(data).format)


NUMBERS = {1: "B", 3: "H", 4: "I", 6: "b", 8: "h", 9: "i", 13: "I", 16: "Q", 17: "q", 18: "Q"}


@pytest.mark.parametrize("is_big", [False, True])
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_of_a_tiff_are_read_whatever_their_type(
    kind: int, order: str, is_big: bool
) -> None:
    """In both byte orders, also where they do not fit into their entry."""
    room = 8 if is_big else 4
    tags = {256: 100, 257: 50, 274: 6}
    entries, behind = b"", b""
    first = (16 if is_big else 8) + (8 if is_big else 2) + len(tags) * (4 + 2 * room) + room
    for tag, value in tags.items():
        number = struct.pack(order + NUMBERS[kind], value)
        if len(number) > room:
            place = struct.pack(order + "I", first + len(behind))
            number, behind = place, behind + number
        entries += struct.pack(order + ("HHQ" if is_big else "HHI"), tag, kind, 1)
        entries += number.ljust(room, b"\0")
    mark = b"II" if order == "<" else b"MM"
    head = struct.pack(order + "HHHQQ", 43, 8, 0, 16, 3) if is_big else struct.pack(order + "HIH", 42, 8, 3)  # fmt: skip
    header = read_header(mark + head + entries + bytes(room) + behind)

    assert (header.height, header.width, header.orientation) == (100, 50, 6)


def test_big_tiffs_agree_with_their_library() -> None:
    """Height and width are what was written."""
    stream = io.BytesIO()
    tifffile.imwrite(stream, PIXELS, bigtiff=True, photometric="rgb", byteorder=">")
    header = read_header(stream.getvalue())

    assert (header.height, header.width, header.has_alpha) == (24, 40, False)


@pytest.mark.parametrize("kind", ["GIF", "PNG"])
@pytest.mark.parametrize("options", [{}, {"transparency": 3}])
def test_transparency_of_palettes_is_told_alike(kind: str, options: dict[str, int]) -> None:
    """A GIF says so in another place than a PNG."""
    stream = io.BytesIO()
    Image.fromarray(PIXELS).quantize(16).save(stream, kind, **options)

    assert read_header(stream.getvalue()).has_alpha == bool(options)
    assert Image.open(stream).has_transparency_data == bool(options)
