"""Decode images as stored: any number of channels, 8 or 16 bits or floats, without silent conversions."""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dali_pipes.decode import boxed
from dali_pipes.decode.opencv import imdecode, opencv_for, upright
from dali_pipes.decode.tiff import read_tiff
from dali_pipes.errors import DecodeError, error_text
from gpu_aug.image_kind import ImageKind
from readers import HeaderError, read_header
from readers.image.header import Header
from readers.image.raw_pixels import read_npy
from readers.sample import Payload

_GRAY, _GRAY_WITH_ALPHA = 0, 4  # colour types of PNG, byte 25 of a file
_FULL_RANGES = (255, 65535)
"""Largest values that a PNM may declare: those of the full range of 8 or 16 bits. Other files would need scaling."""
_PNM_MAXIMUM = re.compile(rb"P[2356](?:(?:\s|#[^\n]*\n)+\d{1,9}){2}(?:\s|#[^\n]*\n)+(\d{1,5})\s")
_TYPES = {8: ("uint8",), 16: ("uint16",), "float32": ("float16", "float32")}
"""NumPy types that a file may have, by the requested depth."""


def decode_stored(data: Payload, size: tuple[int, int], kind: ImageKind) -> NDArray[Any]:
    """Decode a full image with the given channels and depth, and apply its orientation.

    Args:
        data: The encoded bytes: PNG, TIFF, NumPy (.npy), JPEG, WebP, BMP, PNM, AVIF, HEIC, JPEG XL or JPEG 2000.
        size: Height and width that the image's header states.
        kind: Count of channels and depth that the image must have.

    Returns:
        [height, width, channels]: uint8 for a depth of 8; float32 in [0, 1] for 16 (the value divided by 65535, or by the
        largest one of fewer bits, such as 1023 of an AVIF of 10 bits); the stored float32 values for "float32".

    Raises:
        DecodeError: The bytes do not decode, or have other channels, another depth or another size.
    """
    header, array = _read_upright(data, kind.channels)
    _require_kind(array, header, kind)
    if array.shape[:2] != size:
        got = f"{array.shape[0]}x{array.shape[1]}"
        raise DecodeError(f"decodes to {got}, but its header says {size[0]}x{size[1]}")
    if kind.depth == 16:
        largest = (1 << header.bits) - 1 if header.format in boxed.FORMATS else 65535
        return array.astype(np.float32) / np.float32(largest)
    return np.ascontiguousarray(array, np.uint8 if kind.depth == 8 else np.float32)


def read_numbers(data: Payload, channels: int) -> NDArray[Any]:
    """Return the stored values of an image with any numeric type, upright: [height, width, channels].

    Raises:
        DecodeError: The image does not decode, or does not have `channels` channels.
    """
    header, array = _read_upright(data, channels)
    if array.ndim != 3 or array.shape[2] != channels:
        shape = "x".join(map(str, array.shape))
        raise DecodeError(f"{header.format} of {shape}, but {channels=} are asked for")
    if array.dtype.kind not in "uif":
        raise DecodeError(f"{header.format} of {array.dtype.name}, which is not a numeric type")
    return array


def read_layer(data: Payload, size: tuple[int, int]) -> NDArray[Any]:
    """Return the stored values of an image with one number per pixel, upright: [height, width].

    Args:
        data: The encoded bytes: PNG, TIFF or another format of `decode_stored`.
        size: Height and width that the image must have.

    Raises:
        DecodeError: The image does not decode, or has several channels or another size.
    """
    layer: NDArray[Any] = read_numbers(data, 1)[..., 0]
    if layer.shape != size:
        got = f"{layer.shape[0]}x{layer.shape[1]}"
        raise DecodeError(f"decodes to {got}, but its dataset says {size[0]}x{size[1]}")
    return layer


def _read_upright(data: Payload, channels: int) -> tuple[Header, NDArray[Any]]:
    """Return the header and the upright image [height, width, channels], RGB.

    The image may have another count of channels than requested.
    """
    try:
        header = read_header(data)
    except HeaderError as error:
        raise DecodeError(str(error)) from error
    if header.format == "npy":
        array = _read_npy(data)
    elif header.format == "tiff":
        array = read_tiff(data, channels)
    elif header.format in boxed.FORMATS:
        array = boxed.decode_stored(data, header)
    else:
        array = _read_with_opencv(data, header)
    array = array[..., None] if array.ndim == 2 else array
    return header, array if header.format in boxed.TURNED else upright(array, header.orientation)


def _read_npy(data: Payload) -> NDArray[Any]:
    try:
        array = read_npy(data)
    except Exception as error:
        raise DecodeError(f"NumPy: {error_text(error)}") from error
    return array.astype(array.dtype.newbyteorder("="))


def _read_with_opencv(data: Payload, header: Header) -> NDArray[Any]:
    _require_plain(data, header)
    cv2 = opencv_for(header.format)
    if cv2 is None:
        raise DecodeError(
            f"{header.format} with the channels and the depth that it stores needs OpenCV 4.12 or newer: "
            "pip install 'opencv-python-headless>=4.12'"
        )
    image = imdecode(cv2, data, cv2.IMREAD_UNCHANGED)
    if image.ndim == 3 and image.shape[2] >= 3:  # OpenCV's order is BGR
        image = image[..., [2, 1, 0, *range(3, image.shape[2])]]
    if header.format == "png" and data[25] == _GRAY_WITH_ALPHA and image.ndim == 3:
        image = image[..., [0, 3]]
    return image


def _require_plain(data: Payload, header: Header) -> None:
    """Raise if OpenCV would drop the image's transparency, or would not scale its values."""
    if header.format == "png" and header.has_alpha and data[25] == _GRAY:
        raise DecodeError("gray png with one transparent level: store an alpha channel, or none")
    found = _PNM_MAXIMUM.match(data) if header.format == "ppm" else None
    if found is not None and int(found[1]) not in _FULL_RANGES:
        raise DecodeError(
            f"ppm whose largest value is {int(found[1])}, but 255 and 65535 are supported: scale it"
        )


def _require_kind(array: NDArray[Any], header: Header, kind: ImageKind) -> None:
    """Raise if the image has other channels or another type than requested; a silent conversion would change values."""
    channels = array.shape[2] if array.ndim == 3 else None
    if channels == kind.channels and array.dtype.name in _TYPES[kind.depth]:
        return
    shape = f"of the shape {list(array.shape)}" if channels is None else f"with channels={channels}"
    wanted = " or ".join(_TYPES[kind.depth])
    raise DecodeError(
        f"{header.format} {shape} of {array.dtype.name}, but channels={kind.channels} of {wanted} are asked for "
        f"(depth={kind.depth!r})"
    )
