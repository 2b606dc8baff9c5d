"""Decode full images to RGB of 8 bits, if neither our own JPEG decoder nor DALI decodes them."""

import io
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dali_pipes.decode import boxed
from dali_pipes.errors import DecodeError, error_text
from dali_pipes.samples.image_fields import warn_of_losses
from readers import Header, HeaderError, read_header
from readers.sample import Payload

# OpenCV blends transparent pixels of these formats with black; for other formats it returns the stored colour, as Pillow does.
_BLENDED = ("gif", "tiff")
# First OpenCV with the pixels and the verdicts of OpenCV 5, measured on 490 files, cut and damaged ones among them (docs/versions.md).
# 4.10 accepts JPEGs that are cut short and reads no animated WebP; 4.10 and 4.11 read no GIF.
_FIRST_EXACT_OPENCV = {"jpeg": (4, 11), "webp": (4, 11), "gif": (4, 12)}
_NUMBERS = "a NumPy array, which is read as stored: give the Loader images=ImageOptions(channels=..., depth=...), such as depth=16"


def decode(data: Payload, size: tuple[int, int]) -> NDArray[np.uint8]:
    """Decode a full image to RGB and apply the orientation.

    OpenCV decodes if the installed version treats the format as OpenCV 5 does (see `opencv_for`): it then accepts the same files as
    DALI, and its pixels equal Pillow's (within 1 for CMYK). Otherwise Pillow decodes. For AVIF, HEIC, JPEG XL and JPEG 2000 see
    `dali_pipes.decode.boxed`.

    Args:
        data: The encoded bytes.
        size: Height and width that the image's header states.

    Returns:
        uint8 [height, width, 3].

    Raises:
        DecodeError: The bytes do not decode, or decode to another size.
    """
    try:
        header = read_header(data)
        warn_of_losses(header)
    except HeaderError as error:
        raise DecodeError(str(error)) from error
    except UserWarning as error:  # if warnings are errors: a bad image must not end the thread
        raise DecodeError(f"a warning, and warnings are errors here: {error}") from error
    if header.format == "npy":
        raise DecodeError(_NUMBERS)
    image = boxed.decode_rgb(data, header) if header.format in boxed.FORMATS else _rgb(data, header)
    if header.format not in ("tiff", *boxed.TURNED):  # their decoders apply the orientation
        image = np.ascontiguousarray(upright(image, header.orientation))
    if image.shape != (*size, 3):
        got = f"{image.shape[0]}x{image.shape[1]}"
        raise DecodeError(f"decodes to {got}, but its header says {size[0]}x{size[1]}")
    return image


def _rgb(data: Payload, header: Header) -> NDArray[np.uint8]:
    cv2 = opencv_for(header.format)
    blends = header.has_alpha and header.format in _BLENDED
    if blends or not hasattr(cv2, "IMREAD_COLOR_RGB"):  # which OpenCV 4.10 lacks
        return _decode_with_pillow(data)
    assert cv2 is not None
    # OpenCV reads the orientation as two bytes, whatever its stored type; see readers.image.header.
    return imdecode(cv2, data, cv2.IMREAD_COLOR_RGB | cv2.IMREAD_IGNORE_ORIENTATION)


@cache
def opencv_for(image_format: str) -> ModuleType | None:
    """Return the module cv2 if the installed OpenCV decodes a format as OpenCV 5 does; else None.

    Args:
        image_format: See `readers.image.header.Header.format`.
    """
    try:
        import cv2
    except ImportError:
        return None
    installed = tuple(map(int, cv2.__version__.split(".")[:2]))
    return cv2 if installed >= _FIRST_EXACT_OPENCV.get(image_format, (4, 10)) else None


def imdecode(cv2: Any, data: Payload, flags: int) -> NDArray[Any]:
    """Decode an image with OpenCV.

    Args:
        cv2: The module, see `opencv_for`.
        data: The encoded bytes.
        flags: Flags of `cv2.imdecode`.

    Raises:
        DecodeError: OpenCV cannot decode the image.
    """
    try:
        image = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    except Exception as error:  # mostly cv2.error; any other error concerns only this image, too
        raise DecodeError(f"OpenCV: {getattr(error, 'err', None) or error_text(error)}") from error
    if image is None:
        raise DecodeError(
            "OpenCV cannot decode it: truncated or damaged, or of a kind that needs images=ImageOptions(channels=..., depth=...)"
        )
    return np.asarray(image)


def _decode_with_pillow(data: Payload) -> NDArray[np.uint8]:
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data)) as opened:
            image: Image.Image = opened
            # Pillow warns of it in a palette, whose colours stay.
            image.info.pop("transparency", None)
            if image.mode.startswith("I"):  # 16 bits: keep the upper 8; convert() would clip
                image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
            return np.array(image.convert("RGB"))  # a copy, because torch warns of read-only memory
    except Exception as error:  # Pillow's readers raise errors of any type for damaged bytes
        raise DecodeError(f"Pillow: {error_text(error)}") from error


def upright(array: NDArray[Any], orientation: int) -> NDArray[Any]:
    """Return an array [height, width, ...] after an EXIF orientation, 1 to 8, is applied to it."""
    if orientation >= 5:
        array = array.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        array = array[::-1]
    return array[:, ::-1] if orientation in (2, 3, 6, 7) else array
