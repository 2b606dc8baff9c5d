"""Images of all formats and odd headers decode to what Pillow makes of them: upright, and transparent pixels as stored."""

import io
import struct
from collections.abc import Callable

import cv2
import numpy as np
import pytest
import tifffile
from numpy.typing import NDArray
from PIL import Image, ImageOps

from dali_pipes.decode import opencv
from dali_pipes.decode.dali.headers import read_headers
from readers import read_header

RNG = np.random.default_rng(0)
RGB = RNG.integers(0, 256, (24, 40, 3), dtype=np.uint8)
ALPHA = RNG.integers(0, 256, (24, 40, 1), dtype=np.uint8)
ALPHA[:, :20] = 0
RGBA = np.concatenate([RGB, ALPHA], axis=2)
GRAY_ALPHA = np.ascontiguousarray(RGBA[..., 2:])


def saved(array: NDArray[np.uint8], kind: str, *, colors: int = 0, **options: object) -> bytes:
    stream = io.BytesIO()
    image = Image.fromarray(array)
    (image.quantize(colors) if colors else image).save(stream, kind, **options)
    return stream.getvalue()


def animated(kind: str, **options: object) -> bytes:
    others = [Image.fromarray(255 - RGBA)]
    return saved(RGBA, kind, save_all=True, append_images=others, **options)


def written(array: NDArray[np.generic], **options: object) -> bytes:
    stream = io.BytesIO()
    tifffile.imwrite(stream, array, **options)
    return stream.getvalue()


def small_frame() -> bytes:
    """A GIF whose canvas is larger than its frame."""
    data = bytearray(saved(RGB, "GIF", colors=16))
    data[6:10] = struct.pack("<HH", 50, 30)
    return bytes(data)


TRANSPARENT: dict[str, Callable[[], bytes]] = {
    "png of a palette": lambda: saved(RGB, "PNG", colors=16, transparency=3),
    "png of a palette in degrees": lambda: saved(
        RGB, "PNG", colors=16, transparency=bytes(range(16))
    ),
    "png": lambda: saved(RGBA, "PNG"),
    "png in gray": lambda: saved(GRAY_ALPHA, "PNG"),
    "png with one transparent gray": lambda: saved(RGB[..., 0], "PNG", transparency=7),
    "png with one transparent colour": lambda: saved(
        RGB, "PNG", transparency=tuple(RGB[0, 0].tolist())
    ),
    "png of 16 bits": lambda: cv2.imencode(".png", RGBA.astype(np.uint16) * 257)[1].tobytes(),
    "animated png": lambda: animated("PNG"),
    "gif": lambda: saved(RGB, "GIF", colors=16, transparency=3),
    "gif with a background": lambda: saved(RGB, "GIF", colors=16, transparency=3, background=5),
    "animated gif": lambda: animated("GIF"),
    "gif with a small frame": small_frame,
    "webp": lambda: saved(RGBA, "WEBP", lossless=True, exact=True),
    "animated webp": lambda: animated("WEBP", lossless=True, exact=True),
    "tiff": lambda: written(RGBA, photometric="rgb", extrasamples=["unassalpha"]),
    "tiff of 16 bits": lambda: written(
        RGBA.astype(np.uint16) * 257, photometric="rgb", extrasamples=["unassalpha"]
    ),
    "tiff with colours times alpha": lambda: written(
        RGBA, photometric="rgb", extrasamples=["assocalpha"]
    ),
    "tiff in gray": lambda: written(
        GRAY_ALPHA, photometric="minisblack", extrasamples=["unassalpha"]
    ),
    "bmp": lambda: cv2.imencode(".bmp", RGBA)[1].tobytes(),
}
OPAQUE: dict[str, Callable[[], bytes]] = {
    "png": lambda: saved(RGB, "PNG"),
    "png of a palette": lambda: saved(RGB, "PNG", colors=16),
    "gif": lambda: saved(RGB, "GIF", colors=16),
    "webp": lambda: saved(RGB, "WEBP", lossless=True),
    "tiff": lambda: written(RGB, photometric="rgb"),
    "bmp": lambda: saved(RGB, "BMP"),
}


@pytest.mark.filterwarnings("ignore:a .* alpha channel", "ignore:a .* bits per channel")
@pytest.mark.parametrize(
    ("make", "has_alpha"),
    [
        *((make, True) for make in TRANSPARENT.values()),
        *((make, False) for make in OPAQUE.values()),
    ],
    ids=[*TRANSPARENT, *(f"opaque {name}" for name in OPAQUE)],
)
def test_transparent_pixels_have_their_stored_colour(
    make: Callable[[], bytes], has_alpha: bool
) -> None:
    """In all formats alike, and the header says that there are some."""
    data = make()
    header = read_header(data)
    with Image.open(io.BytesIO(data)) as opened:
        opened.info.pop(
            "transparency", None
        )  # Pillow warns of that in a palette, whose colours stay
        wanted = np.asarray(opened.convert("RGB"))

    assert header.has_alpha == has_alpha
    np.testing.assert_array_equal(opencv.decode(data, (header.height, header.width)), wanted)


def exif(orientation: int, kind: int, order: str) -> bytes:
    """An EXIF block whose orientation is of a type: 1 BYTE, 3 SHORT, 4 LONG, 8 and 9 with a sign, 13 IFD."""
    value = {1: "B3x", 3: "H2x", 4: "I", 6: "b3x", 8: "h2x", 9: "i", 13: "I"}[kind]
    entry = struct.pack(f"{order}HHI{value}", 274, kind, 1, orientation)
    mark = b"II*\0" if order == "<" else b"MM\0*"
    return mark + struct.pack(f"{order}IH", 8, 1) + entry + bytes(4)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", [1, 3, 4, 6, 8, 9, 13])
@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("decoder", ["opencv", "pillow"])
def test_orientations_of_any_type(
    form: str,
    kind: int,
    order: str,
    orientation: int,
    decoder: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The picture is turned as Pillow turns it where the type is the usual one, by either decoder."""
    if decoder == "pillow":
        monkeypatch.setattr(opencv, "opencv_5", lambda: None)
    mark = b"Exif\0\0" if form == "JPEG" else b""
    data, usual = (saved(RGB, form, exif=mark + exif(orientation, one, order)) for one in (kind, 3))
    header = read_header(data)
    with Image.open(io.BytesIO(usual)) as opened:
        wanted = np.asarray(ImageOps.exif_transpose(opened)).astype(int)
    decoded = opencv.decode(data, (header.height, header.width))

    assert header.orientation == orientation
    assert np.abs(decoded - wanted).max() <= 2  # two decoders of JPEG


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", [1, 3, 4, 6, 8, 9, 13])
def test_fast_decoders_take_only_what_they_turn_right(kind: int, order: str) -> None:
    """They take two bytes for an orientation; where its type makes that another number, another decoder is asked."""
    data = np.frombuffer(saved(RGB, "JPEG", exif=b"Exif\0\0" + exif(6, kind, order)), np.uint8)
    found = read_headers(np.array([[data.ctypes.data, data.size]], np.int64))[0, :2].tolist()

    assert found == ([40, 24] if order == "<" or kind in (3, 8) else [0, 0])
