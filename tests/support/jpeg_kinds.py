"""Kinds of JPEGs, with and without restart markers, made with Pillow and OpenCV from a photograph or noise."""

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tests.support import jpegs
from tests.support.jpegs import SAMPLINGS, picture, turned

__all__ = ["KINDS", "by_pillow", "encode", "interval", "picture", "with_restarts"]

KINDS = (*SAMPLINGS, "grey", "cmyk", "rgb")


def encode(
    pixels: NDArray[np.uint8],
    kind: str,
    *,
    quality: int = 85,
    orientation: int = 1,
    restart: int = 0,
) -> bytes:
    """Encode a picture as a JPEG of one of `KINDS`, with an EXIF orientation where it is not 1."""
    if kind in SAMPLINGS:
        data = jpegs.encode(pixels, kind, quality=quality, restart=restart)
    else:
        stream = io.BytesIO()
        mode = {"grey": "L", "cmyk": "CMYK", "rgb": "RGB"}[kind]
        more: dict[str, Any] = {"keep_rgb": True} if kind == "rgb" else {}
        more |= {"restart_marker_blocks": restart} if restart else {}
        Image.fromarray(pixels).convert(mode).save(stream, "JPEG", quality=quality, **more)
        data = stream.getvalue()
    return data if orientation == 1 else turned(data, orientation)


def with_restarts(data: bytes | bytearray, quality: int = 90) -> bytes:
    """A JPEG decoded and encoded anew by Pillow as 4:2:0, with restart intervals that are a grid in the picture."""
    stream = io.BytesIO()
    with Image.open(io.BytesIO(data)) as image:
        options: dict[str, Any] = {"quality": quality, "subsampling": "4:2:0"}
        options["restart_marker_blocks"] = interval("4:2:0", image.width)
        image.convert("RGB").save(stream, "JPEG", exif=image.getexif(), **options)
    return stream.getvalue()


def interval(kind: str, width: int) -> int:
    """The fewest MCUs that divide a row of them and are 64 pixels wide or more; else the whole row."""
    mcu = {"4:2:2": 16, "4:2:0": 16, "4:1:1": 32}.get(kind, 8)
    row = -(-width // mcu)
    return next((each for each in range(1, row) if row % each == 0 and each * mcu >= 64), row)


def by_pillow(data: bytes | memoryview) -> NDArray[np.uint8]:
    """Decode with Pillow's libjpeg-turbo, as stored; CMYK has four channels."""
    with Image.open(io.BytesIO(bytes(data))) as image:
        return np.asarray(image)
