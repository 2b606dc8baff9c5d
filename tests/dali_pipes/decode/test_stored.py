"""Images as they are stored: the numbers of tifffile, Pillow and OpenCV, and one sentence for everything else."""

import ast
import io
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image, ImageOps

from dali_pipes import DecodeError
from dali_pipes.decode import opencv, stored
from dali_pipes.decode.stored import decode_stored
from gpu_aug import ImageKind
from readers import HeaderError, read_header
from readers.image import raw_pixels
from tests.support.kinds import by_opencv, by_pillow, noise, npy, tiff


def decode(data: bytes, kind: ImageKind) -> np.ndarray:
    header = read_header(data)
    return decode_stored(data, (header.height, header.width), kind)


def expected(pixels: np.ndarray) -> np.ndarray:
    """What the numbers become: [H, W, C]."""
    pixels = pixels if pixels.ndim == 3 else pixels[..., None]
    if pixels.dtype == np.uint16:
        return pixels.astype(np.float32) / np.float32(65535)
    return pixels if pixels.dtype == np.uint8 else pixels.astype(np.float32)


FIVE, GRAY, RGB, RGBA = (noise(channels) for channels in (5, 1, 3, 4))
FLOATS = noise(5, "float32")
PAGES = np.moveaxis(FIVE, -1, 0)
WHOLE = {
    "png gray": (by_opencv("png", GRAY), GRAY),
    "png RGB": (by_opencv("png", RGB), RGB),
    "png RGBA": (by_opencv("png", RGBA), RGBA),
    "png RGBA 8": (by_opencv("png", noise(4, "uint8")), noise(4, "uint8")),
    "png gray and alpha": (
        by_pillow("PNG", Image.fromarray(noise(2, "uint8"))),
        noise(2, "uint8"),
    ),
    "webp RGBA": (
        by_pillow("WEBP", Image.fromarray(noise(4, "uint8")), lossless=True, exact=True),
        noise(4, "uint8"),
    ),
    "bmp gray": (by_pillow("BMP", Image.fromarray(noise(1, "uint8"))), noise(1, "uint8")),
    "pgm": (by_opencv("pgm", GRAY), GRAY),
    "tiff": (tiff(FIVE), FIVE),
    "tiff, big endian": (tiff(FIVE, byteorder=">"), FIVE),
    "bigtiff": (tiff(FIVE, bigtiff=True), FIVE),
    "bigtiff, big endian": (tiff(FIVE, bigtiff=True, byteorder=">"), FIVE),
    "tiff, planes": (tiff(PAGES, planarconfig="separate"), FIVE),
    "tiff, pages": (tiff(PAGES, planarconfig=None), FIVE),
    "tiff, ImageJ": (tiff(PAGES, planarconfig=None, imagej=True), FIVE),
    "tiff, tiles": (tiff(FIVE, tile=(16, 16)), FIVE),
    "tiff, zlib": (tiff(FIVE, compression="zlib"), FIVE),
    "tiff, floats": (tiff(FLOATS), FLOATS),
    "tiff, half floats": (tiff(FLOATS.astype(np.float16)), FLOATS.astype(np.float16)),
    "tiff, RGB": (tiff(RGB, photometric="rgb"), RGB),
    "npy": (npy(FIVE), FIVE),
    "npy, columns first": (npy(np.asfortranarray(FIVE)), FIVE),
    "npy, big endian": (npy(FIVE.astype(">u2")), FIVE),
    "npy, floats": (npy(FLOATS), FLOATS),
    "npy, gray": (npy(GRAY), GRAY),
}


@pytest.mark.parametrize("name", WHOLE)
def test_numbers_are_those_that_were_written(name: str) -> None:
    """To the last bit, whatever way the format stores them."""
    data, pixels = WHOLE[name]
    channels = 1 if pixels.ndim == 2 else pixels.shape[2]
    depth: Any = {"uint8": 8, "uint16": 16}.get(pixels.dtype.name, "float32")

    assert np.array_equal(decode(data, ImageKind(channels, depth)), expected(pixels))


def test_tiffs_are_what_tifffile_reads() -> None:
    """Of compressed tiles, too, and without the smaller images behind the first."""
    stream = io.BytesIO()
    with tifffile.TiffWriter(stream) as writer:
        writer.write(FIVE, photometric="minisblack", planarconfig="contig", tile=(16, 16))
        writer.write(FIVE[::2, ::2], photometric="minisblack", planarconfig="contig", subfiletype=1)

    [first, _] = tifffile.TiffFile(io.BytesIO(stream.getvalue())).pages
    assert np.array_equal(decode(stream.getvalue(), ImageKind(5, 16)), expected(first.asarray()))


@pytest.mark.parametrize("compression", ["lzw", "zstd"])
def test_compressed_tiffs(compression: str) -> None:
    """Those that imagecodecs reads."""
    data = tiff(FIVE, compression=compression)
    assert np.array_equal(decode(data, ImageKind(5, 16)), expected(FIVE))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF"])
def test_orientation_is_applied(kind: str, orientation: int) -> None:
    """As Pillow applies it, to gray images, which OpenCV leaves as they are stored."""
    exif = Image.Exif()
    exif[274] = orientation
    smooth = np.add.outer(np.arange(14) * 9, np.arange(18) * 4).astype(np.uint8)
    data = by_pillow(kind, Image.fromarray(smooth), exif=exif)
    with Image.open(io.BytesIO(data)) as opened:
        upright = np.asarray(ImageOps.exif_transpose(opened))

    decoded = decode(data, ImageKind(1, 8))[..., 0]

    assert decoded.shape == upright.shape
    assert np.abs(decoded.astype(int) - upright).max() <= (2 if kind == "JPEG" else 0)


def damaged_tiff(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 255]) + data[middle + 1 :]


LARGE = noise(1, size=(64, 64))
ONE, FOUR, GRAY_8 = ImageKind(1, 16), ImageKind(4, 16), ImageKind(1, 8)
REFUSED = {
    "other channels": (tiff(FIVE), FOUR, "tiff with channels=5 of uint16, but channels=4 of uint16 are"),
    "other depth": (by_opencv("png", noise(1, "uint8")), ONE, "png with channels=1 of uint8, but.*depth=16"),
    "16 for 8": (by_opencv("png", GRAY), GRAY_8, "channels=1 of uint16, but channels=1 of uint8"),
    "colours for gray": (by_opencv("jpg", noise(3, "uint8")), GRAY_8, "jpeg with channels=3"),
    "palette": (by_pillow("PNG", Image.new("P", (4, 4))), GRAY_8, "png with channels=3"),
    "transparent level": (
        by_pillow("PNG", Image.new("L", (4, 4)), transparency=0),
        GRAY_8,
        "one transparent level",
    ),
    "pnm": (b"P5\n2 1\n4095\n\x01\x02\x03\x04", ONE, "largest value is 4095, but 255 and 65535"),
    "whole numbers": (npy(FIVE.astype(np.int32)), ImageKind(5, 16), "npy with channels=5 of int32"),
    "double": (tiff(FLOATS.astype(np.float64)), ImageKind(5, "float32"), "of float64, but"),
    "more pages": (tiff(PAGES, planarconfig=None), ImageKind(3, 16), "tiff with more than 3 pages of samplesperpixel=1"),
    "fewer pages": (tiff(PAGES[:2], planarconfig=None), ImageKind(3, 16), "tiff with 2 pages of samplesperpixel=1"),
    "white is 0": (tiff(GRAY, photometric="miniswhite"), ONE, "interpretation is MINISWHITE"),
    "one bit": (tiff(GRAY > 9), GRAY_8, "tiff of 1 bits"),
    "cut tiff": (tiff(LARGE)[:5000], ONE, "ends before its pixels: truncated"),
    "cut tiff, zlib": (tiff(LARGE, compression="zlib")[:5000], ONE, "ends before its pixels"),
    "damaged tiff": (damaged_tiff(tiff(LARGE, compression="zlib")), ONE, "tifffile: "),
    "cut npy": (npy(FIVE)[:-3], ImageKind(5, 16), "NumPy: "),
    "cut png": (by_opencv("png", LARGE)[:4000], ONE, "truncated or damaged"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_of_another_kind_or_damaged_is_refused(case: str) -> None:
    """One sentence: what it is, and what is asked for."""
    data, kind, sentence = REFUSED[case]
    with pytest.raises(DecodeError, match=sentence) as caught:
        decode(data, kind)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "array", [np.array(3), np.zeros(4), np.zeros((2, 2, 2, 2)), np.array(["a"])]
)
def test_arrays_that_are_no_images_have_no_header(array: np.ndarray) -> None:
    """Nothing but [height, width] and [height, width, channels] of numbers."""
    with pytest.raises(HeaderError, match="npy that holds no array of numbers"):
        read_header(npy(array))


def test_a_wrong_header_is_noticed() -> None:
    """The size that was promised is that of the pixels."""
    with pytest.raises(DecodeError, match="decodes to 14x18, but its header says 18x14"):
        decode_stored(npy(GRAY), (18, 14), ONE)


def test_an_array_is_not_taken_for_rgb_of_8_bits() -> None:
    """The usual decoder says what to ask for."""
    with pytest.raises(DecodeError, match=r"give the Loader images=ImageOptions\(channels="):
        opencv.decode(npy(noise(3, "uint8")), (14, 18))


def test_packages_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenCV, tifffile."""
    monkeypatch.setattr(stored, "opencv_for", lambda _: None)
    with pytest.raises(DecodeError, match=r"png .* needs OpenCV 4\.12 or newer: pip install"):
        decode(by_opencv("png", GRAY), ONE)
    monkeypatch.setitem(__import__("sys").modules, "tifffile", None)
    with pytest.raises(DecodeError, match=r"pip install 'gpu-aug\[tiff\]'"):
        decode(tiff(GRAY), ONE)


def test_a_large_page_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the limit of one sample."""
    monkeypatch.setenv("GPU_AUG_MAX_SAMPLE_BYTES", "1000")
    with pytest.raises(DecodeError, match="an image would take 2520 bytes of memory"):
        decode(tiff(FIVE), ImageKind(5, 16))


def test_threads_that_disturb_pythons_parser_damage_no_array(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python 3.11.7 ends `ast.parse` by this error where two threads call it; NumPy parses headers with it."""
    data, kind = npy(FIVE), ImageKind(5, 16)
    parse = ast.parse
    errors: list[Exception] = []

    def disturbed(*args: Any, **options: Any) -> ast.AST:
        if errors:
            raise errors.pop()
        return parse(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(ast, "parse", disturbed)
        errors.append(SystemError("AST constructor recursion depth mismatch"))
        raw_pixels._npy_header.cache_clear()
        np.testing.assert_array_equal(decode(data, kind), expected(FIVE))
        assert not errors
        errors += [SystemError("AST constructor recursion depth mismatch")] * 1000
        raw_pixels._npy_header.cache_clear()
        with pytest.raises(DecodeError, match="recursion depth"):
            decode(data, kind)
