"""Conversion of TensorFlow's object detection records to the field json and mask fields."""

import json
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from readers.formats.boxes.checks import read_each, read_flag, require_stated_size
from readers.formats.columns import CORNERS, to_payload
from readers.formats.protobuf.example import is_decoded
from readers.formats.tfrecord.label_map import LabelMap
from readers.sample import Payload

_SIDES = ("xmin", "ymin", "xmax", "ymax")
_BOX = "image/object/bbox/"
_TEXT, _LABEL = "image/object/class/text", "image/object/class/label"
_MASK = "image/object/mask"
# Features with one value per object, and their names in the field json.
_FURTHER = {
    "image/object/is_crowd": "iscrowd",
    "image/object/group_of": "group_of",
    "image/object/area": "area",
    "image/object/difficult": "difficult",
    "image/object/truncated": "truncated",
    "image/object/weight": "weight",
}
_ROUNDING = 1e-6  # rounding error of a coordinate divided by a size, in float32


def holds_objects(members: Collection[str]) -> bool:
    """Return whether records hold objects with boxes and classes, by the names of their members.

    Records of ImageNet also have boxes, but no classes of objects, and give False.
    """
    names = {name[1:] if is_decoded(name) else name for name in members}
    return all(_BOX + side in names for side in _SIDES) and bool({_TEXT, _LABEL} & names)


def add_objects(
    fields: Mapping[str, Payload],
    size: tuple[int, int] | None,
    labels: LabelMap | None,
    *,
    crowd: bool,
) -> dict[str, Payload]:
    """Return the stored fields of a record, followed by the field json and the mask fields.

    A record with a stored field json is returned unchanged.

    Args:
        fields: The stored fields, with numbers as JSON.
        size: Height and width of the upright image, None if its header cannot be read.
        labels: Label map; None takes the numbers in the record as class numbers.
        crowd: Whether regions that hold several objects count as objects.

    Raises:
        ValueError: Features of objects are invalid or have different counts of values; the text is a short reason.
    """
    if "json" in fields:
        return dict(fields)
    boxes = _boxes(fields, size)
    targets: dict[str, Any] = {"boxes": boxes}
    classes = _classes(fields, labels)
    if classes or not boxes:
        targets["labels"] = _as_many("labels", classes, boxes)
    for feature, name in _FURTHER.items():
        values = _numbers(fields, feature)
        if values:
            targets[name] = _as_many(feature, values, boxes)
        if values and name not in ("area", "weight"):  # flags; OpenImages has -1 for unknown
            targets[name] = read_each(
                values,
                partial(read_flag, name=feature, allowed=(-1, 0, 1)),
                lambda number, _: f"object {number}",
            )
    masks = _as_many(_MASK, _several(fields, _MASK) or [b""] * len(boxes), boxes)
    groups = zip(
        *(targets.get(name, [0] * len(boxes)) for name in ("iscrowd", "group_of")), strict=True
    )
    selected = [number for number, is_group in enumerate(groups) if crowd or max(is_group) < 1]
    targets = {name: [values[number] for number in selected] for name, values in targets.items()}
    found: dict[str, Payload] = {"json": to_payload(targets | CORNERS)}
    found |= {
        f"mask.{n}.png": masks[number] for n, number in enumerate(selected) if len(masks[number])
    }
    stored = {name: fields[name] for name in fields if not _is_mask(name)}
    return stored | found


def _boxes(fields: Mapping[str, Payload], size: tuple[int, int] | None) -> list[list[float]]:
    sides = {side: _numbers(fields, _BOX + side) for side in _SIDES}
    counts = {side: len(values) for side, values in sides.items()}
    if len({*counts.values()}) > 1:
        raise ValueError(f"it has {', '.join(f'{n} {side}' for side, n in counts.items())}")
    if not counts["xmin"]:
        return []
    if size is None:
        raise ValueError("its boxes are shares of an image whose size cannot be read")
    lengths = [_numbers(fields, f"image/{name}") for name in ("height", "width")]
    stated = [int(one[0]) if len(one) == 1 else 0 for one in lengths]
    require_stated_size((stated[0], stated[1]), size, "the record")
    height, width = size
    found = []
    for number, box in enumerate(zip(*sides.values(), strict=True)):
        x1, y1, x2, y2 = map(_share, box)
        if not (x1 < x2 and y1 < y2):
            raise ValueError(
                f"object {number} has xmin {x1}, ymin {y1}, xmax {x2}, ymax {y2}, which is no area"
            )
        if max(map(abs, (x1, y1, x2, y2))) > 2:
            raise ValueError(
                f"object {number} has coordinates up to {max(x2, y2)}, where shares of the image must be"
            )
        found.append([x1 * width, y1 * height, x2 * width, y2 * height])
    return found


def _share(value: float) -> float:
    if -_ROUNDING < value < 0:
        return 0.0
    return 1.0 if 1 < value < 1 + _ROUNDING else value


def _classes(fields: Mapping[str, Payload], labels: LabelMap | None) -> list[int]:
    """Return the class number of each object, by the numbers and names in the record, one of which may be missing."""
    numbers = [int(number) for number in _numbers(fields, _LABEL)]
    texts = [str(bytes(one), "utf-8", "replace") for one in _several(fields, _TEXT)]
    if numbers and texts and len(numbers) != len(texts):
        raise ValueError(f"it has {len(numbers)} labels, {len(texts)} {_TEXT}")
    if labels is None:
        if texts and not numbers:
            raise ValueError(f"its classes have names alone ({_TEXT}): number them with classes=")
        return numbers
    count = len(numbers) or len(texts)
    known: list[int | None] = [*numbers] if numbers else [None] * count
    pairs = list(zip(known, texts or [""] * count, strict=True))
    return read_each(pairs, lambda pair: labels.to_class(*pair), lambda at, _: f"object {at}")


def _as_many(name: str, values: list[Any], boxes: list[Any]) -> list[Any]:
    if len(values) != len(boxes):
        raise ValueError(f"it has {len(boxes)} xmin, {len(values)} {name}")
    return values


def _numbers(fields: Mapping[str, Payload], name: str) -> list[float]:
    if name not in fields:
        return []
    try:
        read = json.loads(bytes(fields[name]))
    except (ValueError, RecursionError):
        read = None
    numbers = read if isinstance(read, list) else [read]
    if not all(type(number) in (int, float) for number in numbers):
        raise ValueError(f"{name} holds no numbers")
    return numbers


def _several(fields: Mapping[str, Payload], name: str) -> list[Payload]:
    """Return the values of a bytes feature, stored in the field NAME, or in NAME.0, NAME.1 and so on if there are several."""
    if name in fields:
        return [fields[name]]
    found: list[Payload] = []
    while (numbered := f"{name}.{len(found)}") in fields:
        found.append(fields[numbered])
    return found


def _is_mask(name: str) -> bool:
    return name == _MASK or name.startswith(f"{_MASK}.")
