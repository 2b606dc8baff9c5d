"""Mapping of values or colours in mask files to classes: checks, and the field that passes it to the decoder."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from readers.describe import few_of
from readers.formats.columns import shorten
from readers.sample import SourceError
from readers.storage.unreadable import is_transient, reason_of

IGNORED = 255  # ignore_index of most losses and of the published evaluation scripts
BINARY = {0: 0, 255: 1}
ADE20K = {0: IGNORED} | {value: value - 1 for value in range(1, 151)}
# Source: the table of the Cityscapes scripts, as in torchvision.datasets.Cityscapes.classes.
_TRAIN_IDS = (7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33)
CITYSCAPES = dict.fromkeys(range(34), IGNORED) | {
    value: number for number, value in enumerate(_TRAIN_IDS)
}
NAMED: dict[str, dict[int, int]] = {"binary": BINARY, "ade20k": ADE20K, "cityscapes": CITYSCAPES}
"""Named mappings that ``mask_values`` accepts: dicts from value in the file to class."""


def to_json(
    values: Mapping[int, int] | str | None,
    colors: Mapping[tuple[int, int, int], int] | None,
    ignore: int | None,
) -> bytes:
    """Check a mapping of values or colours, and return it as the field `readers.sample.MASK_VALUES`.

    Args:
        values: Dict from value in the file to class, or one of the names in `NAMED`.
        colors: Dict from (red, green, blue) in the file to class.
        ignore: Class of all unlisted values or colours; None refuses these.

    Returns:
        The field's content, JSON; b"" if all arguments are None.

    Raises:
        SourceError: Values and colours are both given, or a mapping is empty or malformed.
    """
    if isinstance(values, str):
        if values not in NAMED:
            raise SourceError(
                f"mask_values={values!r} is not known: give one of {', '.join(NAMED)}, or a dictionary such as "
                "{0: 255, 1: 0}"
            )
        values = NAMED[values]
    if values is not None and colors is not None:
        raise SourceError("mask_values= and colors= are both given: masks hold numbers or colours")
    if ignore is not None and values is None and colors is None:
        raise SourceError(
            f"ignore={ignore!r} is the class of values that mask_values= or colors= do not list: give one of these"
        )
    if values == {} or colors == {}:
        raise SourceError(
            "mask_values= or colors= is empty: list the values or colours that masks hold"
        )
    fields: dict[str, Any] = {}
    if values is not None:
        fields["values"] = [[_whole(value), _whole(values[value])] for value in values]
    if colors is not None:
        fields["colors"] = [[*_color(color), _whole(colors[color])] for color in colors]
    if ignore is not None:
        fields["ignore"] = _whole(ignore)
    return json.dumps(fields, separators=(",", ":")).encode() if fields else b""


def values_in(paths: Iterable[Path]) -> set[int]:
    """Return the set of grey values in some masks, with -1 for a mask of more than 8 bits.

    Damaged files are skipped, since they become bad samples later.

    Raises:
        SourceError: A mask has colours, or the storage failed.
    """
    from PIL import Image

    greys: set[int] = set()
    for path in paths:
        colors: list[Any] | None = [(0, 0, 0)]
        try:
            with Image.open(path) as picture:
                colors = _colors(picture)
        except Exception as error:  # noqa: BLE001 - Pillow's readers let through what damaged bytes make of them
            if is_transient(error):
                raise SourceError(
                    f"{path} cannot be read ({reason_of(error)}), so the values of masks are unknown: try again"
                ) from None
        greys |= {-1} if colors is None else {color[0] for color in colors}
        colored = [color for color in colors or () if len({*color}) > 1]
        if colored:
            raise SourceError(
                f"{path} holds colours such as {few_of(sorted(colored), 4)}, and which class each stands for is not in the file: say "
                "colors={(r, g, b): class, ...}"
            )
    return greys


def _colors(picture: Any) -> list[tuple[int, int, int]] | None:
    """Return the colours in an open Pillow image of a mask; None for values of more than 8 bits.

    Palette indices, bits and grey levels become greys (v, v, v).
    """
    if picture.mode == "P" and picture.format == "PNG":
        return [(value, value, value) for _, value in picture.getcolors(256)]
    if picture.mode == "1":
        return [(int(value > 0),) * 3 for _, value in picture.getcolors(2)]
    if picture.mode[0] in "IF":
        return None
    array = np.asarray(picture.convert("RGB")).reshape(-1, 3)
    packed = np.unique(array.astype(np.int32) @ np.array([1 << 16, 1 << 8, 1], np.int32))
    return [(one >> 16, one >> 8 & 255, one & 255) for one in packed.tolist()]


def _whole(value: Any) -> int:
    if type(value) is not int or not -(1 << 31) <= value < 1 << 31:
        raise SourceError(
            f"values and classes of masks are whole numbers of 32 bits, got {shorten(value)}"
        )
    return value


def _color(color: Any) -> tuple[int, int, int]:
    if (
        not isinstance(color, tuple)
        or len(color) != 3
        or not all(0 <= _whole(x) < 256 for x in color)
    ):
        raise SourceError(
            f"colors= has (red, green, blue) of 0 to 255 as keys, got {shorten(color)}"
        )
    return color
