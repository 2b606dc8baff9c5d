"""The parts of a COCO file, read one by one: images, annotations, categories."""

import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from readers.formats.columns import shorten
from readers.sample import Payload


def parse(text: Payload) -> dict[str, Any]:
    """Read an image or an object.

    Raises:
        ValueError: It is no JSON in UTF-8, or no object.
    """
    try:
        parsed = json.loads(str(text, "utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"it has a byte that is not UTF-8 ({error.reason})") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is no JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise ValueError(f"it is no JSON object but {shorten(parsed)}")
    return parsed


def file_name(image: Mapping[str, Any]) -> str:
    """Return the name of an image's file.

    Raises:
        ValueError: The image lacks it or its number, or no file can have it.
    """
    name = image.get("file_name")
    if not isinstance(name, str) or not name or not is_id(image.get("id")):
        raise ValueError(
            f"it has no file_name or no id that is a whole number or text, but {shorten(name)} and {shorten(image.get('id'))}"
        )
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        raise ValueError(f"its file_name {shorten(name)} can be no file's") from None
    return name


def is_id(value: Any) -> bool:
    """Whether a value names an image or a category: a whole number, which pandas also writes as 1.0, or text.

    Python finds 1.0 where 1 is asked for; of True, which it finds too, nobody knows which image it means.
    """
    return (
        type(value) is int
        or isinstance(value, str)
        or (isinstance(value, float) and value.is_integer())
    )


def are_categories(value: Any) -> bool:
    """Whether a value is a list of categories whose ids are all numbers, or all text."""
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        return False
    ids = [one.get("id") for one in value]
    return all(map(is_id, ids)) and len({isinstance(one, str) for one in ids}) <= 1


def is_box(box: Any) -> bool:
    """Whether a value is a COCO box with a width and a height."""
    numbers = isinstance(box, list) and len(box) == 4
    return numbers and are_finite(box) and min(box[2:]) > 0


def are_finite(values: Sequence[Any]) -> bool:
    """Whether all of some values are numbers, neither NaN nor infinite."""
    return all(isinstance(x, int | float) and math.isfinite(x) for x in values)
