import csv
import io
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

from readers import Header, HeaderError, read_header
from tests.support.kinds import noise, npy, tiff

# name, format for us, mode of the picture, format and options for Pillow
MADE = {
    "jpeg": ("jpeg", "RGB", "JPEG", {}),
    "jpeg-progressive": ("jpeg", "RGB", "JPEG", {"progressive": True}),
    "jpeg-gray": ("jpeg", "L", "JPEG", {}),
    "jpeg-cmyk": ("jpeg", "CMYK", "JPEG", {}),
    "jpeg-comment": ("jpeg", "RGB", "JPEG", {"comment": b"\xff\xd8\xff\xc0" * 50}),
    "jpeg-restarts": ("jpeg", "RGB", "JPEG", {"restart_marker_rows": 1}),
    "png": ("png", "RGB", "PNG", {}),
    "png-palette": ("png", "P", "PNG", {}),
    "png-alpha": ("png", "RGBA", "PNG", {}),
    "webp-lossy": ("webp", "RGB", "WEBP", {}),
    "webp-lossless": ("webp", "RGB", "WEBP", {"lossless": True}),
    "webp-alpha": ("webp", "RGBA", "WEBP", {}),
    "webp-exif": ("webp", "RGB", "WEBP", {"exif": b"II*\0\x08" + bytes(9)}),
    "gif": ("gif", "P", "GIF", {}),
    "bmp": ("bmp", "RGB", "BMP", {}),
    "bmp-palette": ("bmp", "P", "BMP", {}),
    "tiff": ("tiff", "RGB", "TIFF", {}),
    "tiff-lzw": ("tiff", "L", "TIFF", {"compression": "tiff_lzw"}),
    "ppm": ("ppm", "RGB", "PPM", {}),
    "pgm": ("ppm", "L", "PPM", {}),
    "pbm": ("ppm", "1", "PPM", {}),
}
HEIGHT, WIDTH = 37, 530  # neither fits one byte twice, and no mix-up of the two goes unseen


def encode(mode: str, kind: str, **options: object) -> bytes:
    pixels = np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(stream, kind, **options)
    return stream.getvalue()


def exif(orientation: int, order: str = "<", kind: int = 3) -> bytes:
    """An EXIF block with one entry; kind 1 is a byte, 3 a short, 4 a long."""
    value = {1: "B3x", 3: "H2x", 4: "I"}[kind]
    mark = b"II*\0" if order == "<" else b"MM\0*"
    entry = struct.pack(f"{order}HHI{value}", 0x0112, kind, 1, orientation)
    return mark + struct.pack(f"{order}IH", 8, 1) + entry + bytes(4)


def with_segment(jpeg: bytes, marker: int, content: bytes, position: int = 2) -> bytes:
    segment = struct.pack(">BBH", 0xFF, marker, len(content) + 2) + content
    return jpeg[:position] + segment + jpeg[position:]


def png_chunk(kind: bytes, content: bytes) -> bytes:
    return (
        struct.pack(">I", len(content))
        + kind
        + content
        + struct.pack(">I", zlib.crc32(kind + content))
    )


def upright_size(data: bytes) -> tuple[int, int]:
    """(height, width) after EXIF orientation, according to Pillow."""
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    return image.height, image.width


def alpha_of(data: bytes) -> bool:
    """Whether Pillow finds transparency."""
    with Image.open(io.BytesIO(data)) as opened:
        return opened.has_transparency_data


@pytest.mark.parametrize("name", MADE)
def test_every_format_agrees_with_pillow(name: str) -> None:
    """Format and size are those that the picture was made with, also in a view into a larger buffer."""
    expected_format, mode, kind, options = MADE[name]
    data = encode(mode, kind, **options)
    view = memoryview(b"before" + data + b"behind")[6:-6]
    expected = Header(expected_format, HEIGHT, WIDTH, 1, has_alpha=alpha_of(data))

    assert (read_header(data), read_header(view)) == (expected, expected)
    assert upright_size(data) == (HEIGHT, WIDTH)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_exif_orientation_agrees_with_pillow(kind: str, order: str, orientation: int) -> None:
    """All eight orientations, in both byte orders, turn the size as Pillow turns the picture."""
    prefix = b"Exif\0\0" if kind == "JPEG" else b""
    data = encode("RGB", kind, exif=prefix + exif(orientation, order))
    header = read_header(data)

    assert ((header.height, header.width), header.orientation) == (upright_size(data), orientation)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_tiff_orientation_agrees_with_pillow(orientation: int) -> None:
    """The orientation tag of a TIFF counts as EXIF does."""
    data = encode("RGB", "TIFF", tiffinfo={0x0112: orientation})
    header = read_header(data)

    assert ((header.height, header.width), header.orientation) == (upright_size(data), orientation)


@pytest.mark.parametrize("order", ["<", ">"])
def test_tiff_sizes_may_be_short_or_long(order: str) -> None:
    """Both types of number are read, in both byte orders."""
    mark = b"II*\0" if order == "<" else b"MM\0*"
    width = struct.pack(f"{order}HHIH2x", 256, 3, 1, 530)
    height = struct.pack(f"{order}HHII", 257, 4, 1, 70_000)
    data = mark + struct.pack(f"{order}IH", 8, 2) + width + height + bytes(4)

    assert read_header(data) == Header("tiff", 70_000, 530, 1)


@pytest.mark.parametrize("orientation", [0, 9, 65535])
def test_impossible_orientation_counts_as_upright(orientation: int) -> None:
    """An orientation outside 1 to 8 is as good as none."""
    data = encode("RGB", "JPEG", exif=b"Exif\0\0" + exif(orientation))

    assert read_header(data) == Header("jpeg", HEIGHT, WIDTH, 1)


@pytest.mark.parametrize("length", range(26))
def test_broken_exif_counts_as_upright(length: int) -> None:
    """EXIF that is cut off anywhere before the end of its entry does not spoil the header."""
    block = exif(6)[:length]
    data = with_segment(encode("RGB", "JPEG"), 0xE1, b"Exif\0\0" + block)
    orientation = 6 if length >= 20 else 1

    assert read_header(data).orientation == orientation


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", [1, 3, 4])
def test_orientation_of_any_type_counts(kind: int, order: str) -> None:
    """In both byte orders, whatever type of number its writer chose."""
    data = with_segment(encode("RGB", "JPEG"), 0xE1, b"Exif\0\0" + exif(6, order, kind))

    assert read_header(data) == Header("jpeg", WIDTH, HEIGHT, 6)


def odd_files() -> Iterator[tuple[str, bytes, Header]]:
    """Files that their formats allow and few programs write, with their headers."""
    turned = b"Exif\0\0" + exif(6)
    jpeg, png, bmp = (encode("RGB", kind) for kind in ("JPEG", "PNG", "BMP"))
    two = with_segment(with_segment(jpeg, 0xE1, b"Exif\0\0" + exif(3)), 0xE1, turned)
    yield "the first of two EXIF segments", two, Header("jpeg", WIDTH, HEIGHT, 6)
    behind = with_segment(jpeg, 0xE1, turned, jpeg.index(b"\xff\xda"))
    yield "EXIF behind the frame header", behind, Header("jpeg", WIDTH, HEIGHT, 6)
    padded = jpeg[:2] + b"\xff\xff\xff" + jpeg[2:]
    yield "padding before a marker", padded, Header("jpeg", HEIGHT, WIDTH, 1)
    behind = png[:-12] + png_chunk(b"eXIf", exif(8)) + png[-12:]
    yield "EXIF behind the pixels of a PNG", behind, Header("png", WIDTH, HEIGHT, 8)
    upwards = bmp[:22] + struct.pack("<i", -HEIGHT) + bmp[26:]
    yield "a BMP that begins at the top", upwards, Header("bmp", HEIGHT, WIDTH, 1)
    size = (WIDTH * 3 + 3) // 4 * 4 * HEIGHT
    head = struct.pack("<2sIIIIHHHH", b"BM", 26 + size, 0, 26, 12, WIDTH, HEIGHT, 1, 24)
    yield "a BMP of OS/2", head + bytes(size), Header("bmp", HEIGHT, WIDTH, 1)
    ppm = b"P6 # 1 2\n#\n7\n# 3\t4\n 5 255\n" + bytes(7 * 5 * 3)
    yield "comments in a PPM", ppm, Header("ppm", 5, 7, 1)
    webp = encode("RGB", "WEBP", exif=exif(6), icc_profile=bytes(131))
    yield "a chunk of odd length before EXIF", webp, Header("webp", WIDTH, HEIGHT, 6)


@pytest.mark.parametrize(
    ("data", "expected"), [pytest.param(*file[1:], id=file[0]) for file in odd_files()]
)
def test_odd_files_agree_with_pillow(data: bytes, expected: Header) -> None:
    """Format, upright size and orientation."""
    assert read_header(data) == expected
    assert upright_size(data) == (expected.height, expected.width)


def test_webp_exif_may_begin_with_the_mark_of_jpeg() -> None:
    """Some writers put JPEG's "Exif" mark before the EXIF block of a WebP."""
    data = encode("RGB", "WEBP", exif=exif(6))
    place = data.index(b"EXIF")  # the last chunk
    content = b"Exif\0\0" + exif(6)
    chunk = struct.pack("<4sI", b"EXIF", len(content)) + content
    riff = struct.pack("<4sI", b"RIFF", place + len(chunk) - 8)

    assert read_header(riff + data[8:place] + chunk) == Header("webp", WIDTH, HEIGHT, 6)


def test_huge_pictures_are_measured_without_a_warning() -> None:
    """A size is a fact to report, whatever it would cost to decode."""
    header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", 60_000, 50_000, 8, 2, 0, 0, 0))

    assert read_header(b"\x89PNG\r\n\x1a\n" + header) == Header("png", 50_000, 60_000, 1)


def test_odd_files_have_the_size_of_the_manifest(shared_data: Path) -> None:
    """Each odd file that can be decoded has its size; the others have one or say why not."""
    with (shared_data / "odd" / "MANIFEST.csv").open() as manifest:
        rows = list(csv.DictReader(manifest))
    for row in rows:
        data = (shared_data / "odd" / row["file"]).read_bytes()
        if row["expected"] == "decodes":
            header = read_header(data)

            assert (header.width, header.height) == (int(row["width"]), int(row["height"])), row
        elif row["file"] in BAD_HEADERS:
            with pytest.raises(HeaderError, match=BAD_HEADERS[row["file"]]):
                read_header(data)
        else:  # damaged behind the header
            assert read_header(data).height > 0
    assert len(rows) > 90


BAD_HEADERS = {
    "bitrot_magic.jpg": r"^not an image: starts with b'.xef",
    "empty.jpg": "^empty$",
    "html.jpg": r"^not an image but a web page \(HTML\)",
    "png_xhdn0g08.png": "^png whose header is damaged",
    "text.jpg": "^not an image: starts with b'This is '$",
    "truncated_header.jpg": "^jpeg that ends within its header, at byte 100$",
    "zero_height.jpg": "^jpeg whose header says height 0 and width 240$",
    "zeros.jpg": "^not an image: starts with",
}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "^empty$"),
        (b"\xff\xd8\xff\xda\x00\x08", "^jpeg without a frame header$"),
        (b"\xff\xd8\xff\xe0\x00\x04ab\x00\x00\x00\x00", "^jpeg without a marker at byte 8"),
        (b"\xff\xd8", "^jpeg that ends within its header, at byte 2$"),
        (b"RIFF\x04\0\0\0WAVEfmt ", "^not an image but sound"),
        (b"RIFF\x04\0\0\0WEBPABCD", "^webp whose first chunk is b'ABCD'$"),
        (b"BM" + bytes(40), "^bmp whose header says it is 0 bytes long$"),
        (b"P6 7 five 255 ", "^ppm whose header gives no height and width$"),
        (b"II*\0\x08\0\0\0\0\0", "^tiff whose first directory gives no height and width$"),
        (b"GIF89a\x05\0\0\0\0\0\0," + bytes(9), "^gif whose header says height 0 and width 5$"),
    ],
)
def test_reason_of_a_bad_header(data: bytes, reason: str) -> None:
    """What is not an image says so in a few words."""
    with pytest.raises(HeaderError, match=reason):
        read_header(data)


@pytest.mark.parametrize("name", MADE)
def test_cut_off_anywhere_gives_the_size_or_an_error(name: str) -> None:
    """Every beginning of an image gives its header or a HeaderError, and no other size."""
    expected_format, mode, kind, options = MADE[name]
    data = encode(mode, kind, **options)
    outcomes = [outcome(data[:length]) for length in (*range(800), len(data))]

    expected = Header(expected_format, HEIGHT, WIDTH, 1, has_alpha=alpha_of(data))
    assert set(outcomes) == {None, expected}
    assert outcomes[-1] is not None


@pytest.mark.parametrize("name", MADE)
def test_damaged_bytes_never_raise_anything_else(name: str) -> None:
    """Random damage to the first bytes ends in a header or a HeaderError."""
    _, mode, kind, options = MADE[name]
    data = encode(mode, kind, **options)
    rng = np.random.default_rng(7)
    intact = outcome(data)
    outcomes = [outcome(damaged(data, rng)) for _ in range(300)]

    assert any(result != intact for result in outcomes)


def damaged(data: bytes, rng: np.random.Generator) -> bytes:
    broken = bytearray(data[: rng.integers(20, 1000)])
    for place in rng.integers(2, min(len(broken), 200), 4):
        broken[place] = rng.integers(256)
    return bytes(broken)


def outcome(data: bytes) -> Header | None:
    try:
        return read_header(data)
    except HeaderError:
        return None


BANDS = {
    "bigtiff": tiff(noise(5), bigtiff=True),
    "bigtiff-motorola": tiff(noise(5), bigtiff=True, byteorder=">"),
    "bigtiff-floats": tiff(noise(2, "float32"), bigtiff=True),
    "npy": npy(noise(5)),
    "npy-gray": npy(noise(1, "float32")),
    "npy-fortran": npy(np.asfortranarray(noise(5))),
}


@pytest.mark.parametrize("name", BANDS)
def test_files_of_many_channels_tell_their_size(name: str) -> None:
    """As tifffile and NumPy wrote it."""
    header = read_header(memoryview(BANDS[name]))
    assert (header.height, header.width) == (14, 18)
    assert header.format == ("npy" if name.startswith("npy") else "tiff")
    assert header.bits == (32 if name in ("bigtiff-floats", "npy-gray") else 16)


@pytest.mark.parametrize("name", BANDS)
def test_damaged_files_of_many_channels_never_raise_anything_else(name: str) -> None:
    """Places of 64 bits among them."""
    rng = np.random.default_rng(0)
    for _ in range(1000):
        outcome(damaged(BANDS[name], rng))
    for place in (2**64 - 1, 2**63, 2**40):
        for order in "<>":
            outcome(BANDS[name][:8] + struct.pack(f"{order}Q", place) + BANDS[name][16:])
    for end in range(300):
        outcome(BANDS[name][:end])
