"""Mask files as arrays of class numbers."""

import io
import json
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dali_pipes.errors import told
from gpu_aug.errors import TargetsError
from readers import HeaderError, read_header
from readers.sample import Payload

FORMATS = ("png", "gif", "bmp", "tiff")
_MODES = ("1", "L", "P", "I", "I;16", "I;16B", "RGB", "RGBA", "LA")
# Pillow stretches grey values of 2 and 4 bits to 0..255.
_STRETCHED = {2: 85, 4: 17}
_MOST_SHOWN = 5


def read_mask(
    name: str, data: Payload, size: tuple[int, int], meaning: Payload = b""
) -> NDArray[np.int32]:
    """Decode a mask and number its classes.

    Values are the indices of a PNG with a palette, and grey levels of all other files: other formats have a palette
    for any picture, in an order of their own. Three equal channels are one.

    Args:
        name: Field of the mask, for errors.
        data: Its bytes, PNG, GIF, BMP or TIFF.
        size: Height and width of the upright image, which must be the mask's.
        meaning: JSON {"values": [[value, class], ...]} or {"colors": [[red, green, blue, class], ...]}, with
            "ignore": class for all others; see `readers.formats.mask_folder`. Empty takes the values as they are.

    Returns:
        int32 [height, width].

    Raises:
        TargetsError: It cannot be decoded, is of another size, in colours whose meaning is not known, or has a value or colour that is not listed.
    """
    known = _parse(bytes(meaning)) if len(meaning) else _Meaning()
    pixels = _decode(name, data, size, in_colors=known.colors is not None)
    if known.colors is not None:
        packed = pixels.astype(np.int32) @ np.array([1 << 16, 1 << 8, 1], np.int32)
        return _look_up(name, packed, known.colors, known.ignore, "#{:06x}")
    if pixels.ndim == 3:
        if (pixels[..., :1] != pixels).any():
            raise TargetsError(
                f"{name} must have one channel, whole numbers or a palette, got colours in {pixels.shape[2]} channels: "
                "say which class each stands for with colors=, or write class numbers"
            )
        pixels = pixels[..., 0]
    if known.values is not None:
        numbers = pixels.astype(np.uint8) if pixels.dtype == bool else pixels
        return _look_up(name, numbers, known.values, known.ignore, "{}")
    return pixels.astype(np.int32)


class _Meaning(NamedTuple):
    """Values or packed colours in the file, sorted, above the classes: int64 [2, n]; both None for none."""

    values: NDArray[np.int64] | None = None
    colors: NDArray[np.int64] | None = None
    ignore: int | None = None


@lru_cache(maxsize=16)
def _parse(text: bytes) -> _Meaning:
    try:
        said = json.loads(text)
        values, colors = said.get("values"), said.get("colors")
        ignore = said.get("ignore")
        if colors is not None:
            colors = [[(red << 16) + (green << 8) + blue, to] for red, green, blue, to in colors]
        tables = [None if one is None else _sorted(one) for one in (values, colors)]
        return _Meaning(tables[0], tables[1], ignore)
    except (ValueError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise TargetsError(f"mask_values.json cannot be read: {error}") from error


def _sorted(pairs: Any) -> NDArray[np.int64]:
    table = np.array(pairs, np.int64).reshape(-1, 2)
    if not len(table):
        raise ValueError("it lists nothing")
    return table[np.argsort(table[:, 0], kind="stable")].T


def _look_up(
    name: str, values: NDArray[Any], table: NDArray[np.int64], ignore: int | None, form: str
) -> NDArray[np.int32]:
    """Return the class of each value; short types go through a table of all their values, in a twentieth of the time."""
    if values.dtype in (np.uint8, np.uint16):
        every, wanted = np.arange(np.iinfo(values.dtype).max + 1), values
    else:
        every, wanted = np.unique(values, return_inverse=True)
    places = np.searchsorted(table[0], every).clip(0, table.shape[1] - 1)
    is_listed = table[0][places] == every
    if ignore is None and not is_listed.all():
        others = np.unique(values[~is_listed[wanted]])[:_MOST_SHOWN]
        if len(others):
            shown = ", ".join(form.format(value) for value in others.tolist())
            raise TargetsError(
                f"{name} has the values {shown}, of which mask_values= or colors= say no class: add them there, "
                "or say ignore= for all others"
            )
    classes = np.where(is_listed, table[1][places], 0 if ignore is None else ignore)
    numbered: NDArray[np.int32] = classes.astype(np.int32)[wanted].reshape(values.shape)
    return numbered


def _decode(name: str, data: Payload, size: tuple[int, int], *, in_colors: bool) -> NDArray[Any]:
    """Return the pixels of a file: integers [H, W], or [H, W, 3] where it holds colours or they are wanted."""
    from PIL import Image

    try:
        header = read_header(data)
    except HeaderError as error:
        raise TargetsError(f"{name} must be a {' or '.join(FORMATS)}: {error}") from error
    if header.format not in FORMATS:
        raise TargetsError(f"{name} must be a {' or '.join(FORMATS)}, got {header.format}")
    try:
        with Image.open(io.BytesIO(data), formats=(header.format.upper(),)) as opened:
            if opened.size != size[::-1]:
                got = f"{opened.height}x{opened.width}"
                raise TargetsError(
                    f"{name} must be as large as the upright image, {size[0]}x{size[1]}, got {got}"
                )
            return _pixels(name, opened, data, in_colors=in_colors)
    except TargetsError:
        raise
    except Exception as error:  # Pillow's readers let through what damaged bytes make of them
        raise TargetsError(f"{name} cannot be decoded: {told(error)}") from error


def _pixels(name: str, opened: Any, data: Payload, *, in_colors: bool) -> NDArray[Any]:
    mode, is_png = opened.mode, opened.format == "PNG"
    if mode not in _MODES:
        raise TargetsError(f"{name} must hold whole numbers or colours, got Pillow's mode {mode}")
    if getattr(opened, "n_frames", 1) != 1:
        raise TargetsError(f"{name} must hold one picture, got {opened.n_frames}")
    if mode in ("RGBA", "LA") and opened.getchannel("A").getextrema()[0] < 255:
        raise TargetsError(
            f"{name} must not be transparent anywhere: a mask has a class in each pixel"
        )
    if in_colors or mode in ("RGB", "RGBA", "LA") or (mode == "P" and not is_png):
        return np.asarray(opened.convert("RGB"))
    stretched = _STRETCHED.get(bytes(data[24:25])[0], 1) if is_png and mode == "L" else 1
    pixels = np.asarray(opened)
    return pixels if stretched == 1 else pixels // stretched
