"""Decode AVIF, HEIC, JPEG XL and JPEG 2000 with imagecodecs, pillow-heif or Pillow.

imagecodecs gives all bits. Pillow reads AVIF and JPEG 2000 of 8 bits without a further package, with the same pixels, as
both contain libavif and OpenJPEG.
"""

import io
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dali_pipes.errors import DecodeError, error_text
from readers import Header
from readers.sample import Payload

FORMATS = frozenset({"avif", "heic", "jxl", "jp2"})
"""Formats that this module decodes, as named by `Header.format`."""
TURNED = ("heic", "jxl")
"""Formats whose libraries apply the orientation themselves."""


def decode_rgb(data: Payload, header: Header) -> NDArray[np.uint8]:
    """Decode an image to RGB: gray is repeated, alpha left out, and of more bits than 8 the upper 8 are taken.

    Args:
        data: The encoded bytes.
        header: Their header, of one of `FORMATS`.

    Returns:
        uint8 [height, width, 3]; not upright unless the format is one of `TURNED`.

    Raises:
        DecodeError: The bytes do not decode, hold floats, or the library is not installed.
    """
    array = np.atleast_3d(decode_stored(data, header))
    if array.dtype.kind == "f":
        raise DecodeError(
            'jxl of floats: give the Loader images=ImageOptions(channels=..., depth="float32"), or convert it'
        )
    if array.dtype != np.uint8:
        array = (array >> (header.bits - 8)).astype(np.uint8)
    is_gray = array.shape[2] < 3
    return np.ascontiguousarray(np.repeat(array[..., :1], 3, axis=2) if is_gray else array[..., :3])


def decode_stored(data: Payload, header: Header) -> NDArray[Any]:
    """Decode an image with the bits as stored; of an animation the first frame, of an animated AVIF its still image.

    Args:
        data: The encoded bytes.
        header: Their header, of one of `FORMATS`.

    Returns:
        [height, width] or [height, width, channels], 2 channels being gray and alpha: uint8; uint16, of which the lower
        `header.bits` are used; of a JPEG XL also float16 or float32. Not upright unless the format is one of `TURNED`.

    Raises:
        DecodeError: The bytes do not decode, or the library is not installed.
    """
    try:
        array = _DECODERS[header.format](data, header)
    except ModuleNotFoundError as error:
        package, extra = (
            ("pillow-heif", "heic") if header.format == "heic" else ("imagecodecs", "images")
        )
        raise DecodeError(
            f"{header.format} of {header.bits} bits needs the package {package}: pip install 'gpu-aug[{extra}]'"
        ) from error
    except IndexError as error:  # pillow-heif, of a file in which it finds no image
        raise DecodeError(f"{header.format}: truncated or damaged") from error
    except Exception as error:  # damaged bytes raise errors of any type
        raise DecodeError(f"{header.format}: {error_text(error).strip()}") from error
    if (array.dtype.itemsize > 1) != (header.bits > 8):
        raise DecodeError(
            f"{header.format} that decodes to {array.dtype.name}, but its header says {header.bits} bits"
        )
    return array


def _decode_avif_or_jp2(data: Payload, header: Header) -> NDArray[Any]:
    if header.format == "avif":
        # With this major brand libavif decodes the still image, which the header describes. With others it decodes the frames
        # of an animation: imagecodecs 2026.3.6 all of them, into any memory, or outside its memory if one is asked for.
        data = b"".join((data[:8], b"avif", data[12:]))
    try:
        import imagecodecs
    except ModuleNotFoundError:
        if header.bits > 8:  # Pillow would drop bits
            raise
        return _with_pillow(data)
    decode = imagecodecs.avif_decode if header.format == "avif" else imagecodecs.jpeg2k_decode
    return decode(bytes(data), numthreads=1)  # a loader has threads of its own


def _with_pillow(data: Payload) -> NDArray[Any]:
    from PIL import Image

    with Image.open(io.BytesIO(data), formats=("AVIF", "JPEG2000")) as image:
        return np.array(image)  # a copy, because torch warns of read-only memory


def _decode_jxl(data: Payload, _header: Header) -> NDArray[Any]:
    from imagecodecs import jpegxl_decode

    return jpegxl_decode(bytes(data), index=0, numthreads=1)


def _decode_heic(data: Payload, _header: Header) -> NDArray[Any]:
    from pillow_heif import open_heif

    return np.array(open_heif(bytes(data), convert_hdr_to_8bit=False, hdr_to_16bit=False))


_DECODERS: dict[str, Callable[[Payload, Header], NDArray[Any]]] = {
    "avif": _decode_avif_or_jp2,
    "heic": _decode_heic,
    "jxl": _decode_jxl,
    "jp2": _decode_avif_or_jp2,
}
