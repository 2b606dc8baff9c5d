"""Kinds of JPEGs, with and without restart markers, made with Pillow and OpenCV from a photograph or noise."""

import io
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

SAMPLINGS = {
    "4:4:4": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444,
    "4:2:2": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_422,
    "4:2:0": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420,
    "4:4:0": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_440,
    "4:1:1": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_411,
}
KINDS = (*SAMPLINGS, "grey", "cmyk", "rgb")


def picture(height: int, width: int, seed: int = 0) -> NDArray[np.uint8]:
    """Smooth colours with noise, uint8 [height, width, 3]."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)
    smooth = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
    return np.clip(smooth * 0.85 + rng.integers(0, 38, (height, width, 1)), 0, 255).astype(np.uint8)


def encode(
    pixels: NDArray[np.uint8],
    kind: str,
    *,
    progressive: bool = False,
    quality: int = 85,
    orientation: int = 1,
    restart: int = 0,
) -> bytes:
    """Encode a picture as a JPEG of one of `KINDS`, with an EXIF orientation where it is not 1."""
    if kind in SAMPLINGS:
        options = [
            cv2.IMWRITE_JPEG_QUALITY,
            quality,
            cv2.IMWRITE_JPEG_PROGRESSIVE,
            int(progressive),
        ]
        options += [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, SAMPLINGS[kind]]
        options += [cv2.IMWRITE_JPEG_RST_INTERVAL, restart]
        data = cv2.imencode(".jpg", pixels, options)[1].tobytes()
    else:
        stream = io.BytesIO()
        mode = {"grey": "L", "cmyk": "CMYK", "rgb": "RGB"}[kind]
        more: dict[str, Any] = {"keep_rgb": True} if kind == "rgb" else {}
        more |= {"restart_marker_blocks": restart} if restart else {}
        image = Image.fromarray(pixels).convert(mode)
        image.save(stream, "JPEG", quality=quality, progressive=progressive, **more)
        data = stream.getvalue()
    return data if orientation == 1 else with_orientation(data, orientation)


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


def with_orientation(data: bytes, orientation: int) -> bytes:
    """Put an EXIF segment in front of the others."""
    entry = bytes([1, 0x12, 0, 3, 0, 0, 0, 1, 0, orientation, 0, 0])
    exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01" + entry + bytes(4)
    return data[:2] + b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif + data[2:]


def by_opencv(data: bytes | memoryview, *, upright: bool = True) -> NDArray[np.uint8]:
    """Decode with OpenCV's libjpeg-turbo."""
    flags = cv2.IMREAD_COLOR_RGB | (0 if upright else cv2.IMREAD_IGNORE_ORIENTATION)
    return cv2.imdecode(np.frombuffer(data, np.uint8), flags)


def by_pillow(data: bytes | memoryview) -> NDArray[np.uint8]:
    """Decode with Pillow's libjpeg-turbo, as stored; CMYK has four channels."""
    with Image.open(io.BytesIO(bytes(data))) as image:
        return np.asarray(image)
