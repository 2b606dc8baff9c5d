"""What the values or colours of mask files mean: said by the caller, handed over to whoever decodes them."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from readers.formats.columns import shorten
from readers.formats.registry import require
from readers.sample import SourceError

IGNORED = 255
BINARY = {0: 0, 255: 1}
ADE20K = {0: IGNORED} | {value: value - 1 for value in range(1, 151)}
# Source: the table of the Cityscapes scripts, as in torchvision.datasets.Cityscapes.classes.
_TRAIN_IDS = (7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33)
CITYSCAPES = dict.fromkeys(range(34), IGNORED) | {
    value: number for number, value in enumerate(_TRAIN_IDS)
}
NAMED: dict[str, dict[int, int]] = {"binary": BINARY, "ade20k": ADE20K, "cityscapes": CITYSCAPES}
"""What ``mask_values`` may be called; value in the file -> class."""

_MOST_SHOWN = 4


def to_json(
    values: Mapping[int, int] | str | None,
    colors: Mapping[tuple[int, int, int], int] | None,
    ignore: int | None,
) -> bytes:
    """Check what the caller says, and write it as the field `readers.sample.MASK_VALUES`; empty for nothing.

    Args:
        values: Value in the file -> class, or one of the names in `NAMED`.
        colors: (red, green, blue) in the file -> class.
        ignore: The class of all other values or colours; None refuses them.

    Raises:
        SourceError: It is neither, or both.
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
            f"ignore={ignore!r} says what values become that mask_values= or colors= do not list: give one of these"
        )
    if values == {} or colors == {}:
        raise SourceError(
            "mask_values= or colors= is empty: list the values or colours that masks hold"
        )
    said: dict[str, Any] = {}
    if values is not None:
        said["values"] = [[_whole(value), _whole(values[value])] for value in values]
    if colors is not None:
        said["colors"] = [[*_color(color), _whole(colors[color])] for color in colors]
    if ignore is not None:
        said["ignore"] = _whole(ignore)
    return json.dumps(said, separators=(",", ":")).encode() if said else b""


def seen(paths: Iterable[Path]) -> set[int]:
    """Return the values of some masks: all of them where they are 0 and 255 alone, else some; -1 for what is no grey.

    Files that cannot be read are passed over: they are bad samples later.

    Raises:
        SourceError: A mask is a picture in colours.
    """
    found: set[int] = set()
    pillow = require("PIL.Image", extra="formats")
    for path in paths:
        try:
            with pillow.open(path) as picture:
                found |= _values(picture, path)
        except (OSError, ValueError, SyntaxError):
            continue
    return found


def _values(picture: Any, path: Path) -> set[int]:
    if picture.mode[0] in "IF1" or (picture.mode == "P" and picture.format == "PNG"):
        counted = picture.getcolors(256) if picture.mode in ("1", "P") else None
        most = 1 if picture.mode == "1" else 255
        return {min(value, most) for _, value in counted} if counted else {-1}
    counted = picture.convert("RGB").getcolors(256)
    colors = [color for _, color in counted or ()]
    colored = [color for color in colors if len({*color}) > 1]
    if colored or counted is None:
        shown = ", ".join(map(str, sorted(colored)[:_MOST_SHOWN]))
        raise SourceError(
            f"{path} holds colours{f' such as {shown}' if shown else ''}, and which class each stands for is not in the "
            "file: say colors={(r, g, b): class, ...}"
        )
    return {red for red, _, _ in colors}


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
