"""AVIF, HEIC, JPEG XL and JPEG 2000, written by other libraries than those that decode them where there are two."""

import io
import random
from collections.abc import Iterator
from typing import Any

import imagecodecs
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from tests.support.kinds import by_pillow

FORMATS = ("avif", "heic", "jxl", "jp2")
SIZE = (24, 40)


def smooth(
    channels: int, bits: int = 8, size: tuple[int, int] = SIZE
) -> NDArray[np.uint8 | np.uint16]:
    """Gradients [H, W, C], [H, W] for one channel, without symmetry, up to the largest value of the bits."""
    rows, columns = np.mgrid[: size[0], : size[1]]
    ramps = (columns, rows, rows + columns, 2 * columns + rows)[:channels]
    values = [np.round(ramp / ramp.max() * ((1 << bits) - 1)) for ramp in ramps]
    pixels = np.stack(values, axis=-1).astype(np.uint8 if bits == 8 else np.uint16)
    return pixels if channels > 1 else pixels[..., 0]


def exif_of(orientation: int) -> bytes:
    exif = Image.Exif()
    exif[274] = orientation
    return exif.tobytes()


def heic(pixels: NDArray[Any], bits: int = 8, **options: Any) -> bytes:
    """By libheif and x265, without loss as far as these can."""
    library = pytest.importorskip("pillow_heif", reason="the package pillow-heif is not installed")
    library.register_heif_opener()
    given = {"quality": -1, "chroma": 444} | options
    if bits == 8:
        return by_pillow("HEIF", Image.fromarray(pixels), **given)
    stream = io.BytesIO()
    mode = f"{'RGB' if pixels.ndim == 3 else 'L'};{bits}"
    image = library.from_bytes(mode, pixels.shape[1::-1], pixels.tobytes())
    library.options.SAVE_HDR_TO_12_BIT = bits == 12
    image.save(stream, **given)
    return stream.getvalue()


def encode(name: str, pixels: NDArray[Any], bits: int = 8) -> bytes:
    """One image, without loss but for HEIC."""
    if name == "heic":
        return heic(pixels, bits)
    if name == "avif":
        return bytes(imagecodecs.avif_encode(pixels, level=100, speed=8, bitspersample=bits))
    if name == "jxl":
        return bytes(imagecodecs.jpegxl_encode(pixels, lossless=True, bitspersample=bits, effort=1))
    return bytes(imagecodecs.jpeg2k_encode(pixels, level=0, reversible=True, bitspersample=bits))


def turned(name: str, pixels: NDArray[Any], orientation: int) -> bytes:
    """One image that is shown upright after the orientation, which each format states in its own way."""
    exif = exif_of(orientation)
    if name == "heic":
        return heic(pixels, exif=exif)
    if name == "avif":
        options = {"quality": 100, "subsampling": "4:4:4"}
        return by_pillow("AVIF", Image.fromarray(pixels), exif=exif, **options)
    jpeg = by_pillow("JPEG", Image.fromarray(pixels), exif=exif, quality=100, subsampling=0)
    return bytes(imagecodecs.jpegxl_encode_jpeg(jpeg, usecontainer=True))


def damaged(data: bytes, count: int, seed: int) -> Iterator[bytes]:
    """Copies of a file with changed bytes and bits, cut off, shortened or extended inside."""
    drawn = random.Random(seed)
    for _ in range(count):
        copy, at, kind = bytearray(data), drawn.randrange(len(data)), drawn.randrange(5)
        if kind == 0:
            yield data[:at]
        elif kind == 1:
            yield data[:at] + data[at + drawn.randrange(1, 9) :]
        elif kind == 2:
            yield data[:at] + drawn.randbytes(drawn.randrange(1, 20)) + data[at:]
        else:
            end = len(data) if kind == 3 else min(len(data), 300)
            for _ in range(drawn.choice((1, 1, 2, 4, 8))):
                copy[drawn.randrange(end)] = drawn.choice((0, 128, 255, drawn.randrange(256)))
            yield bytes(copy)
