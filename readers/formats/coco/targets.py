"""Images, objects and segments of a COCO file, and the fields that the loader makes targets of."""

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from readers.formats.boxes.checks import keypoints_to_json, read_each, read_flag
from readers.formats.boxes.oriented import area_of, corners_around, corners_of_rotated, has_area
from readers.formats.coco.masks import extent
from readers.formats.columns import shorten
from readers.formats.text import parse_object
from readers.sample import Payload

VOID = 255
"""The class of the pixels of a panoptic mask that belong to no segment."""


def parse(text: Payload) -> dict[str, Any]:
    """Return an image or an annotation.

    Raises:
        ValueError: The text is no JSON in UTF-8, or no object.
    """
    return parse_object(text, encoding="utf-8")


def file_name(image: Mapping[str, Any]) -> str:
    """Return the name of an image's file.

    Raises:
        ValueError: The image has no name or no id, or no file can have the name.
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
    """Whether a value is an id of an image or a category: a whole number, which pandas also writes as 1.0, or text.

    A dictionary finds 1.0 under the key 1. It finds True as well, which is refused because it is surely no id.
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


def objects_to_json(
    objects: Sequence[tuple[Mapping[str, Any], Sequence[float]]],
    categories: Mapping[int | str, Mapping[str, Any]],
    *,
    with_keypoints: bool = False,
) -> dict[str, list[Any]]:
    """Return the content of the field json; see `CocoDataset`.

    Args:
        objects: Annotations, each with its box: left, top, right, bottom, or x, y of four corners.
        categories: Id -> category, in the order of their classes.
        with_keypoints: Whether the entries about keypoints are needed although no category lists keypoints.

    Raises:
        ValueError: An object has no known category, or keypoints of another form.
    """
    labels = {number: label for label, number in enumerate(categories)}
    annotations = [one for one, _ in objects]
    targets: dict[str, list[Any]] = {
        "boxes": [[*box] for _, box in objects],
        "labels": read_each(annotations, lambda one: _class_of(one, labels), name_of),
        "iscrowd": read_each(annotations, _is_crowd, name_of),
        "area": [
            one.get("area", area_of(box) if box[4:] else (box[2] - box[0]) * (box[3] - box[1]))
            for one, box in objects
        ],
    }
    if with_keypoints or any("keypoints" in category for category in categories.values()):
        points = read_each(annotations, lambda one: _keypoints(one.get("keypoints", [])), name_of)
        targets |= keypoints_to_json(points)
    return targets


def segments_to_json(
    segments: Any, categories: Mapping[int | str, Mapping[str, Any]], *, crowd: bool
) -> tuple[dict[str, list[Any]], bytes]:
    """Return the things among the segments of a panoptic mask as objects, and the classes of its colours.

    Args:
        segments: The list ``segments_info``.
        categories: Id -> category, in the order of their classes.
        crowd: Whether segments of several things count as objects.

    Returns:
        The field json, and the field `readers.sample.MASK_VALUES`: the class of each colour.

    Raises:
        ValueError: A segment has no number of 24 bits or no known category, or is a thing without a box.
    """
    labels = {number: label for label, number in enumerate(categories)}
    colors = [[0, 0, 0, VOID]]
    things = []
    for one in segments if isinstance(segments, list) else ():
        number = one.get("id") if isinstance(one, dict) else None
        if type(number) is not int or not 0 < number < 1 << 24:
            raise ValueError(f"a segment has the id {shorten(number)}, no number of 24 bits")
        [label] = read_each([one], lambda one: _class_of(one, labels), name_of)
        colors.append([number & 255, number >> 8 & 255, number >> 16, label])
        is_thing = categories[one["category_id"]].get("isthing", 1) if categories else 1
        if read_flag(is_thing, "isthing of its category"):
            things.append(one)
    things = choose_objects(things, crowd=crowd)
    boxes = add_boxes(things, partial(upright_box, box_format="xywh", size=None))
    targets = objects_to_json(boxes, categories)
    targets["segment_ids"] = [one["id"] for one in things]
    return targets, json.dumps({"colors": colors}, separators=(",", ":")).encode()


def upright_box(
    one: Mapping[str, Any], box_format: str, size: tuple[int, int] | None
) -> list[float] | None:
    """Return left, top, right, bottom of an object: of its box, or of its outline if the box is missing or has no area.

    Args:
        one: An annotation.
        box_format: Meaning of the four numbers of a box, "xywh" or "xyxy".
        size: Height and width that run lengths must have; None for any.

    Returns:
        None if neither the box nor the outline has an area: COCO's own files hold such objects.

    Raises:
        ValueError: The box is malformed, or there is neither a box nor an outline.
    """
    box, outline = one.get("bbox"), one.get("segmentation")
    if not box:
        if not outline:
            raise ValueError("it has neither a bbox nor a segmentation")
        return extent(outline, size)
    if not isinstance(box, list) or len(box) != 4 or not are_finite(box):
        raise ValueError(
            f"its bbox {shorten(box)} must be four numbers; say box_format='cxcywhr' where it is the centre, width, height and the "
            "angle in degrees, counter-clockwise, as in Detectron2"
        )
    x, y, right, bottom = box
    if box_format == "xywh":
        right, bottom = x + right, y + bottom
    if right > x and bottom > y:
        return [x, y, right, bottom]
    if right < x or bottom < y:
        raise ValueError(f"its bbox {box} ({box_format}) has a width or height below 0")
    with suppress(ValueError):  # the outline has no area either
        return extent(outline, size)
    return None


def rotated_box(one: Mapping[str, Any]) -> list[float]:
    """Return the four corners of an object whose bbox is (centre x, centre y, width, height, angle); see `corners_of_rotated`.

    Raises:
        ValueError: The bbox has another form, or no area.
    """
    box = one.get("bbox")
    if not isinstance(box, list) or len(box) != 5 or not are_finite(box) or min(box[2:4]) <= 0:
        raise ValueError(
            f"its bbox {shorten(box)} must be five numbers for box_format='cxcywhr': the centre, a width and a height above 0, and "
            "the angle in degrees"
        )
    return corners_of_rotated(box)


def outline_box(
    one: Mapping[str, Any], box_format: str, size: tuple[int, int] | None
) -> list[float] | None:
    """Return the four corners of an object's outline, or of its box if it has no outline.

    A box is turned by the angle in ``attributes``, if there is one; see `rotation_of`.

    Args:
        one: An annotation.
        box_format: See `upright_box`.
        size: See `upright_box`.

    Returns:
        x, y of each corner in the order of the file; None if neither the outline nor the box has an area.

    Raises:
        ValueError: The outline does not consist of four corners in one part, or `upright_box` refuses the box.
    """
    outline = one.get("segmentation")
    corners = quadrangle_of(outline)
    if outline and corners is None:
        raise ValueError(
            "its segmentation is no outline of four corners, which oriented=True needs: write the corners of its oriented box, or "
            "leave out oriented= to have the box around it"
        )
    if corners is not None and has_area(corners):
        return corners
    box = upright_box(one, box_format, size)
    if box is None or not rotation_of(one):
        return None if box is None else corners_around(box)
    left, top, right, bottom = box
    center = (left + right) / 2, (top + bottom) / 2
    return corners_of_rotated([*center, right - left, bottom - top, -rotation_of(one)])


def rotation_of(one: Mapping[str, Any]) -> float:
    """Return the angle by which a box is turned around its centre, in degrees, clockwise as seen in the picture; 0 without one.

    CVAT writes a turned rectangle so: ``bbox`` is the rectangle before the rotation, and ``attributes`` holds ``rotation``; see
    RotatedBoxesToPolygons in cvat/apps/dataset_manager/formats/transformations.py. The bbox of an object with an outline is
    around the outline, so that an attribute of this name has another meaning there.
    """
    attributes = one.get("attributes")
    angle: Any = attributes.get("rotation") if isinstance(attributes, dict) else None
    is_turned = type(angle) in (int, float) and math.isfinite(angle) and not one.get("segmentation")
    return float(angle % 360) if is_turned else 0.0


def quadrangle_of(outline: Any) -> list[float] | None:
    """Return the corners of a polygon of four corners, x, y of each; None for anything else.

    A fifth corner that repeats the first one, as GIS programs write it, is left out.
    """
    if not isinstance(outline, list) or len(outline) != 1 or not isinstance(outline[0], list):
        return None
    corners = outline[0][:8] if outline[0][:2] == outline[0][8:] else outline[0]
    return corners if len(corners) == 8 and are_finite(corners) else None


def add_boxes(
    objects: Sequence[Mapping[str, Any]],
    box_of: Callable[[Mapping[str, Any]], list[float] | None],
) -> list[tuple[Mapping[str, Any], list[float]]]:
    """Return objects with the boxes that `box_of` returns for them, without those for which it returns None.

    Raises:
        ValueError: An object has no box; the text names the object.
    """
    boxes = read_each(objects, box_of, name_of)
    return [(one, box) for one, box in zip(objects, boxes, strict=True) if box is not None]


def choose_objects(objects: Sequence[dict[str, Any]], *, crowd: bool) -> list[dict[str, Any]]:
    """Return annotations or segments, without those of several objects unless ``crowd``.

    Raises:
        ValueError: The ``iscrowd`` of an object is no flag; the text names the object.
    """
    pairs = zip(objects, read_each(objects, _is_crowd, name_of), strict=True)
    return [one for one, is_crowd in pairs if crowd or not is_crowd]


def _is_crowd(one: Mapping[str, Any]) -> int:
    return read_flag(one.get("iscrowd"), "iscrowd")


def name_of(number: int, one: Mapping[str, Any]) -> str:
    """Return the name of an annotation or a segment for errors: its id, else its number in the image."""
    kind = "annotation" if "image_id" in one else "segment"
    return f"{kind} {one['id']!r}" if "id" in one else f"{kind} {number} of the image"


def _class_of(one: Mapping[str, Any], labels: Mapping[int | str, int]) -> int:
    number: Any = one.get("category_id")
    if is_id(number) and number in labels:
        return labels[number]
    if labels or not is_id(number) or isinstance(number, str):
        raise ValueError(f"it has the category_id {number!r}, which categories lacks")
    return int(number)


def _keypoints(flat: Any) -> list[tuple[float, float, int]]:
    """Return x, y and visibility of an object's keypoints."""
    if not isinstance(flat, list) or len(flat) % 3:
        raise ValueError("its keypoints must be x, y and v of each")
    return list(zip(flat[::3], flat[1::3], flat[2::3], strict=True))
