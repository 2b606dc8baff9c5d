"""What belongs to an image of a COCO file, as the fields that the loader knows: objects, segments, captions."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from readers.formats.coco.parse import is_box
from readers.formats.columns import shorten

VOID = 255
"""The class of the pixels of a panoptic mask that belong to no segment."""


def objects_to_json(
    objects: Sequence[Mapping[str, Any]],
    categories: Mapping[int | str, Mapping[str, Any]],
    box_format: str,
) -> dict[str, list[Any]]:
    """Return what the field json holds; see `CocoDataset`.

    Args:
        objects: Annotations, each with a box.
        categories: Id -> category, in the order of their classes.
        box_format: What the four numbers of a box are, "xywh" or "xyxy".

    Raises:
        ValueError: An object is of no category, or its keypoints are none.
    """
    found: dict[str, list[Any]] = {"boxes": [], "labels": [], "iscrowd": [], "area": []}
    labels = {number: label for label, number in enumerate(categories)}
    for one in objects:
        x, y, right, bottom = one["bbox"]
        if box_format == "xywh":
            right, bottom = x + right, y + bottom
        found["boxes"].append([x, y, right, bottom])
        found["labels"].append(_class_of(one, labels))
        found["iscrowd"].append(int(bool(one.get("iscrowd"))))
        found["area"].append(one.get("area", (right - x) * (bottom - y)))
    if any("keypoints" in category for category in categories.values()):
        points = [point for one in objects for point in _keypoints(one.get("keypoints", []))]
        found["keypoints"] = [[x, y] for x, y, _, _ in points]
        found["keypoint_labels"] = [number for _, _, number, _ in points]
        found["keypoint_visibility"] = [seen for _, _, _, seen in points]
    return found


def segments_to_json(
    segments: Any, categories: Mapping[int | str, Mapping[str, Any]], *, crowd: bool
) -> tuple[dict[str, list[Any]], bytes]:
    """Return the things among the segments of a panoptic mask as objects, and what its colours mean.

    Args:
        segments: The list ``segments_info``.
        categories: Id -> category, in the order of their classes.
        crowd: Whether segments of several things count as objects.

    Returns:
        The field json, and the field `readers.sample.MASK_VALUES`: the class of each colour.

    Raises:
        ValueError: A segment has no number of 24 bits, or is of no category.
    """
    labels = {number: label for label, number in enumerate(categories)}
    colors = [[0, 0, 0, VOID]]
    things = []
    for one in segments if isinstance(segments, list) else ():
        number = one.get("id") if isinstance(one, dict) else None
        if type(number) is not int or not 0 < number < 1 << 24:
            raise ValueError(f"a segment has the id {shorten(number)}, no number of 24 bits")
        colors.append([number & 255, number >> 8 & 255, number >> 16, _class_of(one, labels)])
        is_thing = categories[one["category_id"]].get("isthing", 1) if categories else True
        if is_thing and is_box(one.get("bbox")) and (crowd or not one.get("iscrowd")):
            things.append(one)
    found = objects_to_json(things, categories, "xywh")
    found["segment_ids"] = [one["id"] for one in things]
    return found, json.dumps({"colors": colors}, separators=(",", ":")).encode()


def _class_of(one: Mapping[str, Any], labels: Mapping[int | str, int]) -> int:
    number = one.get("category_id")
    if isinstance(number, int | str) and number in labels:
        return labels[number]
    if labels or type(number) is not int:
        raise ValueError(f"an object has the category_id {number!r}, which categories lacks")
    return number


def _keypoints(flat: Any) -> list[tuple[float, float, int, int]]:
    """Return x, y, number in the list, and visibility of an object's labelled keypoints."""
    if not isinstance(flat, list) or len(flat) % 3:
        raise ValueError("an object's keypoints must be x, y and v of each")
    triples = zip(flat[::3], flat[1::3], flat[2::3], strict=True)
    return [(x, y, number, seen) for number, (x, y, seen) in enumerate(triples) if seen]
