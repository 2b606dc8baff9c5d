"""Decoding whole images with OpenCV or Pillow: the fallback for images that neither DALI nor our own decoder takes."""

import io
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dali_pipes.errors import DecodeError, told
from dali_pipes.samples.image_fields import warn_of_losses
from readers import HeaderError, read_header
from readers.sample import Payload

_NPY = b"\x93NUMPY"
# Of these OpenCV blends transparent pixels with black; of all others it gives the colour that is stored, as Pillow does.
_BLENDED = ("gif", "tiff")
_NUMBERS = "an array of NumPy's, which is read as it is stored: give the Loader its channels= and depth=, such as depth=16"


def decode(data: Payload, size: tuple[int, int]) -> NDArray[np.uint8]:
    """Decode a whole image to RGB with the EXIF orientation applied.

    OpenCV 5 decodes where it is installed: its verdicts are DALI's and its pixels are Pillow's (CMYK: off
    by at most 1). OpenCV 4 returns truncated files half gray, so Pillow takes its place.

    Args:
        data: The encoded bytes.
        size: Height and width that the header promises.

    Returns:
        uint8 [height, width, 3].

    Raises:
        DecodeError: If the bytes do not decode, or decode to another size.
    """
    if bytes(data[:6]) == _NPY:
        raise DecodeError(_NUMBERS)
    try:
        header = read_header(data)
        warn_of_losses(header)
    except HeaderError as error:
        raise DecodeError(str(error)) from error
    except UserWarning as error:  # an error of this image, which is no end of a thread
        raise DecodeError(f"a warning, and warnings are errors here: {error}") from error
    cv2 = opencv_5()
    if header.has_alpha and header.format in _BLENDED:
        cv2 = None
    image = _decode_with_pillow(data) if cv2 is None else _decode_with_opencv(cv2, data)
    if header.format != "tiff":  # which both turn upright themselves
        image = np.ascontiguousarray(upright(image, header.orientation))
    if image.shape != (*size, 3):
        got = f"{image.shape[0]}x{image.shape[1]}"
        raise DecodeError(f"decodes to {got}, but its header says {size[0]}x{size[1]}")
    return image


@cache
def opencv_5() -> ModuleType | None:
    """Return OpenCV 5 or newer, None where there is none."""
    try:
        import cv2
    except ImportError:
        return None
    return cv2 if int(cv2.__version__.split(".")[0]) >= 5 else None


def _decode_with_opencv(cv2: Any, data: Payload) -> NDArray[np.uint8]:
    try:
        # It would take two bytes for an orientation of any type, see readers.image.header.
        flags = cv2.IMREAD_COLOR_RGB | cv2.IMREAD_IGNORE_ORIENTATION
        image = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    except Exception as error:  # mostly cv2.error; whatever it is, it is of this image
        raise DecodeError(f"OpenCV: {getattr(error, 'err', None) or told(error)}") from error
    if image is None:
        reason = "truncated or damaged"
        if bytes(data[:2]) in (b"II", b"MM"):
            reason += (
                ", or no TIFF of RGB or gray in 8 or 16 bits, which needs channels= and depth="
            )
        raise DecodeError(f"OpenCV cannot decode it: {reason}")
    return np.asarray(image, np.uint8)


def _decode_with_pillow(data: Payload) -> NDArray[np.uint8]:
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data)) as opened:
            image: Image.Image = opened
            if image.mode.startswith("I"):  # 16 bits: keep the upper 8, where convert() would clip
                image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
            return np.array(image.convert("RGB"))  # a copy: torch warns of read-only memory
    except Exception as error:  # Pillow's readers let through what damaged bytes make of them
        raise DecodeError(f"Pillow: {told(error)}") from error


def upright(array: NDArray[Any], orientation: int) -> NDArray[Any]:
    """Apply an EXIF orientation, 1 to 8, to an array [height, width, ...]."""
    if orientation >= 5:
        array = array.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        array = array[::-1]
    return array[:, ::-1] if orientation in (2, 3, 6, 7) else array
