"""Masks in colours, as CVAT exports them, as masks of numbers."""

import io
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from readers.formats.voc.survey import BACKGROUND, Color
from readers.image.header import read_header
from readers.sample import HeaderError, Payload
from readers.storage.limits import check_bytes

VOID = 255
_IN_COLORS = (b"\2", b"\6")  # RGB, RGBA
_COLOR_TYPE = 25  # its place in a PNG
_UNKNOWN = -1


def in_colors(mask: Payload) -> bool:
    """Whether a PNG has colours of its own instead of a palette or greys."""
    return bytes(mask[_COLOR_TYPE : _COLOR_TYPE + 1]) in _IN_COLORS


@cache
def palette() -> dict[Color, int]:
    """The colour of each number, as Pascal VOC's tools make them: bits of the number, spread over the channels."""
    found = {}
    for number in range(256):
        color = [0, 0, 0]
        for bit in range(8):
            color[bit % 3] |= (number >> bit & 1) << (7 - bit // 3)
        found[color[0], color[1], color[2]] = number
    return found


def numbers_of_colors(
    listed: Mapping[str, Color | None], classes: Sequence[str]
) -> dict[Color, int]:
    """Return what the colours of masks of classes stand for.

    Args:
        listed: Colours by name, the background among them; see `read_labelmap`.
        classes: Names of the classes, of which the first has the number 1 in masks.

    Returns:
        Colour -> number, also of the background and the void; {} where no class has a colour.
    """
    numbers = {BACKGROUND: 0} | {name: at for at, name in enumerate(classes, start=1)}
    found = {color: numbers[name] for name, color in listed.items() if color and name in numbers}
    void = next(color for color, number in palette().items() if number == VOID)
    return {void: VOID, (0, 0, 0): 0, **found} if found else {}


def numbered(mask: Payload, colors: Mapping[Color, int], name: str) -> bytes:
    """Return a PNG with the number of each pixel's colour.

    Args:
        mask: A PNG in colours.
        colors: Red, green and blue -> number, 0 to 255.
        name: The file's name, for errors.

    Raises:
        ValueError: It cannot be decoded, or has a colour without a number.
    """
    pixels = _decode(mask, name).astype(np.int64)
    packed = pixels[..., 0] << 16 | pixels[..., 1] << 8 | pixels[..., 2]
    known = {red << 16 | green << 8 | blue: number for (red, green, blue), number in colors.items()}
    there, places = np.unique(packed, return_inverse=True)
    numbers = np.array([known.get(color, _UNKNOWN) for color in there.tolist()], np.int64)
    if (numbers == _UNKNOWN).any():
        color = int(there[numbers == _UNKNOWN][0])
        told = f"{color >> 16},{color >> 8 & 255},{color & 255}"
        raise ValueError(f"{name} has the colour {told}, which labelmap.txt gives no class")
    return _encode(numbers[places].reshape(packed.shape).astype(np.uint8))


def _decode(mask: Payload, name: str) -> NDArray[np.uint8]:
    from PIL import Image

    try:
        header = read_header(mask)
        check_bytes(32 * header.height * header.width, name)
        with Image.open(io.BytesIO(mask), formats=("PNG",)) as opened:
            return np.asarray(opened.convert("RGB"))
    except (HeaderError, OSError, SyntaxError) as error:
        raise ValueError(f"{name} cannot be decoded: {error}") from None


def _encode(numbers: NDArray[np.uint8]) -> bytes:
    from PIL import Image

    with io.BytesIO() as file:
        Image.fromarray(numbers).save(file, "PNG", compress_level=1)
        return file.getvalue()
