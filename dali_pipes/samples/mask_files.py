"""Read mask files, which are images whose pixels are class numbers."""

import io
import json
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dali_pipes.samples.read_field import FieldError
from readers import read_header
from readers.sample import Payload

# Lossless formats; a JPEG would change class numbers.
FORMATS = ("png", "gif", "bmp", "tiff")
# Pillow's modes with integers, palettes and colours; floats and CMYK cannot hold class numbers.
_MODES = ("1", "L", "P", "I", "I;16", "I;16B", "RGB", "RGBA", "LA")
# Pillow multiplies grey values of 2 and 4 bits by these factors, to stretch them to 0..255.
_STRETCHED = {2: 85, 4: 17}
# Largest number of values or colours without a class that an error lists.
_MOST_SHOWN = 5


class Meaning(NamedTuple):
    """Which class each value or colour of a mask file stands for.

    Attributes:
        table: int64 [2, n], values in the file, ascending, and their classes; None if the values are the classes.
        of_colors: Whether the values are colours, as red * 2**16 + green * 2**8 + blue.
        ignore: Class of all values that the table does not list; None makes such values errors.
    """

    table: NDArray[np.int64] | None = None
    of_colors: bool = False
    ignore: int | None = None


AS_STORED = Meaning()
"""The values of the file are the classes themselves."""


def read_mask(
    data: Payload, size: tuple[int, int], meaning: Meaning = AS_STORED
) -> NDArray[np.int32]:
    """Return the classes of a mask's pixels.

    For a PNG with a palette, the values are the palette indices. For all other files they are grey levels, because other
    formats have a palette for any picture, in an order of their own. Three equal channels count as one.

    Args:
        data: Bytes of a PNG, GIF, BMP or TIFF.
        size: Height and width of the upright image, which the mask must have, too.
        meaning: Which class each value or colour of the file stands for.

    Returns:
        int32 [height, width].

    Raises:
        FieldError: The mask has another size than the image, or has a value or colour without a known class. Damaged
            files raise the errors of Pillow; see `read_field`.
    """
    pixels = _decode(data, size, in_colors=meaning.of_colors)
    if meaning.of_colors:
        pixels = pixels.astype(np.int32) @ np.array([1 << 16, 1 << 8, 1], np.int32)
    elif pixels.ndim == 3:
        if (pixels[..., :1] != pixels).any():
            raise FieldError(
                f"it must have one channel, whole numbers or a palette, got colours in {pixels.shape[2]} channels: "
                "give the class of each with colors=, or write class numbers"
            )
        pixels = pixels[..., 0]
    if meaning.table is None:
        return pixels.astype(np.int32)
    form = "#{:06x}" if meaning.of_colors else "{:d}"
    return _look_up(pixels, meaning.table, meaning.ignore, form)


def read_meaning(data: Payload) -> Meaning:
    """Parse a field `mask_values.json`; see `readers.formats.mask_folder`.

    Args:
        data: Bytes of JSON {"values": [[value, class], ...]} or {"colors": [[red, green, blue, class], ...]},
            optionally with "ignore", the class of all values that are not listed.
    """
    return _parse(bytes(data))


# Cached, because all samples of a dataset have the same bytes; a mixture has several.
@lru_cache(maxsize=16)
def _parse(text: bytes) -> Meaning:
    stored = json.loads(text)
    pairs, colors = stored.get("values"), stored.get("colors")
    if colors is not None:
        pairs = [[(red << 16) + (green << 8) + blue, to] for red, green, blue, to in colors]
    table = None if pairs is None else _sorted(pairs)
    return Meaning(table, colors is not None, stored.get("ignore"))


def _sorted(pairs: Any) -> NDArray[np.int64]:
    table = np.array(pairs, np.int64).reshape(-1, 2)
    if not len(table):
        raise ValueError("it lists nothing")
    return table[np.argsort(table[:, 0], kind="stable")].T


def _look_up(
    values: NDArray[Any], table: NDArray[np.int64], ignore: int | None, form: str
) -> NDArray[np.int32]:
    """Return the class of each value.

    For short integer types, it uses a table of all possible values, which takes a twentieth of the time of a search.
    """
    if values.dtype in (np.uint8, np.uint16):
        every, wanted = np.arange(np.iinfo(values.dtype).max + 1), values
    else:
        every, wanted = np.unique(values, return_inverse=True)
    columns = np.searchsorted(table[0], every).clip(0, table.shape[1] - 1)
    is_listed = table[0][columns] == every
    if ignore is None and not is_listed.all():
        others = np.unique(values[~is_listed[wanted]])[:_MOST_SHOWN]
        if len(others):
            shown = ", ".join(form.format(value) for value in others.tolist())
            raise FieldError(
                f"it has the values {shown}, which have no class in mask_values= or colors=: add them there, or give "
                "ignore= for all others"
            )
    classes = np.where(is_listed, table[1][columns], 0 if ignore is None else ignore)
    numbered: NDArray[np.int32] = classes.astype(np.int32)[wanted].reshape(values.shape)
    return numbered


def _decode(data: Payload, size: tuple[int, int], *, in_colors: bool) -> NDArray[Any]:
    """Return the pixels of a file: integers [H, W], or [H, W, 3] if it holds colours or if they are requested."""
    from PIL import Image

    stored = read_header(data).format
    if stored not in FORMATS:
        raise FieldError(f"it must be a {' or '.join(FORMATS)}, got {stored}")
    with Image.open(io.BytesIO(data), formats=(stored.upper(),)) as image:
        if image.size != size[::-1]:
            raise FieldError(
                f"it must be as large as the upright image, {size[0]}x{size[1]}, got {image.height}x{image.width}"
            )
        return _pixels(image, data, in_colors=in_colors)


def _pixels(image: Any, data: Payload, *, in_colors: bool) -> NDArray[Any]:
    mode, is_png = image.mode, image.format == "PNG"
    if mode not in _MODES:
        raise FieldError(f"it must hold whole numbers or colours, got Pillow's mode {mode}")
    if getattr(image, "n_frames", 1) != 1:
        raise FieldError(f"it must hold one picture, got {image.n_frames}")
    if mode in ("RGBA", "LA") and image.getchannel("A").getextrema()[0] < 255:
        raise FieldError("it must not be transparent anywhere: a mask has a class in each pixel")
    if in_colors or mode in ("RGB", "RGBA", "LA") or (mode == "P" and not is_png):
        return np.asarray(image.convert("RGB"))
    # Byte 24 of a PNG is the bit depth.
    factor = _STRETCHED.get(bytes(data[24:25])[0], 1) if is_png and mode == "L" else 1
    # Otherwise the type would be bool.
    pixels = np.asarray(image, np.uint8 if mode == "1" else None)
    return pixels if factor == 1 else pixels // factor
