"""Checks of annotations and of related arguments: boxes, coordinate origin, classes, picture sizes, flags."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from readers.describe import few_of
from readers.formats.columns import shorten
from readers.plural import counted
from readers.sample import SourceError
from readers.storage.unreadable import is_transient

Outside = Literal["raise", "clip"]
Name = TypeVar("Name")
Content = TypeVar("Content")

NEEDED_FOR_CLASSES = (
    "it may name further classes, without which the numbers of the others shift: repair it, remove it, or give all "
    "names, classes=['cat', 'dog']"
)
"""Value of `needed_for` in `read_if_sound` while class names are collected."""
OTHER_NAMES = ("bbox", "bboxes", "bounding_box", "bounding_boxes")
"""Names that other programs give to boxes. This package reads only ``boxes`` and warns about these names."""

Coords = Literal["one-based", "zero-based"]

_FIRST = {"one-based": 1, "zero-based": 0}  # coordinate of the first pixel
# pandas writes integers as 1.0 if a column has missing values.
_FLAGS = {
    **{text: number for number in (-1, 0, 1, 2) for text in (f"{number}", f"{number}.0")},
    **dict.fromkeys(("false", "nan"), 0),
    "true": 1,
}


def class_number(numbers: Mapping[str, int], name: str, where: str) -> int:
    """Return the class number of a class name.

    Args:
        numbers: Class number of each class name.
        name: The class name.
        where: Name of file and object, for errors.

    Raises:
        ValueError: No class has this name.
    """
    if name not in numbers:
        raise ValueError(f"{where}: {name!r} is none of the classes ({few_of(numbers)})")
    return numbers[name]


def require_choice(name: str, value: object, choices: Sequence[object]) -> None:
    """Check that the value of an argument is one of its choices.

    Raises:
        SourceError: The value is not one of the choices.
    """
    if value not in choices:
        raise SourceError(f"{name}={value!r} must be one of {', '.join(map(repr, choices))}")


def fit_box(
    box: Sequence[float],
    size: tuple[int, int],
    outside: Outside,
    where: str,
    *,
    raw: Sequence[float] | None = None,
    hint: str = "",
) -> list[float] | None:
    """Return the part of a box that lies inside its picture, None if the box lies outside.

    Args:
        box: Left, top, right, bottom in pixels.
        size: Height and width of the picture.
        outside: "raise" refuses a box that leaves the picture, "clip" clips it.
        where: Name of file and object, for errors.
        raw: The box as the file states it, for errors; None if it equals `box`.
        hint: Likely cause, appended to the error about a box that leaves the picture.

    Raises:
        ValueError: The box has no area, or leaves the picture and ``outside`` is "raise".
    """
    height, width = size
    written, limits = raw or box, (width, height, width, height)
    names = ("xmin", "ymin", "xmax", "ymax")
    far = next((at for at in range(4) if not 0 <= box[at] <= limits[at]), None)
    if far is not None and outside == "raise":
        side = "width" if far % 2 == 0 else "height"
        beyond = "< 0" if box[far] < 0 else f"> {side} {limits[far]}"
        shown = f"{written[far]:g}" + (f", which is {box[far]:g}" if raw and box[far] < 0 else "")
        raise ValueError(
            f"{where}: {names[far]} {shown} {beyond}{hint}; outside='clip' cuts such boxes"
        )
    for low, high in ((0, 2), (1, 3)):
        if box[low] >= box[high]:
            raise ValueError(
                f"{where}: {names[high]} {written[high]:g} leaves no area behind {names[low]} {written[low]:g}"
            )
    cut = [min(max(value, 0), limit) for value, limit in zip(box, limits, strict=True)]
    return cut if cut[0] < cut[2] and cut[1] < cut[3] else None


def require_stated_size(
    stated: tuple[int, int] | None, size: tuple[int, int] | None, where: str
) -> None:
    """Check that a picture has the size that its annotation states.

    Args:
        stated: Height and width in the annotation, 0 for a missing one; None if both are missing.
        size: Height and width of the picture after its EXIF orientation is applied; None if its header cannot be read, in
            which case nothing is checked and the decoder reports it later.
        where: Name of the annotation, for errors.

    Raises:
        ValueError: The sizes differ, so the coordinates of the boxes do not fit the pixels.
    """
    if (
        not stated
        or not size
        or all(one in (0, actual) for one, actual in zip(stated, size, strict=True))
    ):
        return
    advice = "annotate the picture as it is, or restore the one that was annotated"
    if stated == size[::-1]:
        advice = (
            "it was annotated before its EXIF orientation turned it, or both sides are exchanged; store the picture "
            "upright and without the tag, or correct them"
        )
    raise ValueError(
        f"{where} states {stated[1]} x {stated[0]} (width x height), the upright picture is {size[1]} x {size[0]}, so that its "
        f"boxes lie in another frame than its pixels: {advice}"
    )


def stated_length(value: Any, where: str) -> int:
    """Parse the width or height that an annotation states; return pixels, 0 if it is missing.

    Args:
        value: The width or height as a number or text; None, NaN or empty text if it is missing.
        where: Name of the value, for errors.

    Raises:
        ValueError: The value is not an integer number of pixels.
    """
    text = "0" if value is None else str(value).strip() or "0"
    with suppress(ValueError):  # raised for text that is not a number
        number = 0.0 if text == "nan" else float(text)  # pandas tables hold NaN for a missing value
        if 0 <= number < 1 << 31 and number.is_integer():
            return int(number)
    raise ValueError(f"{where} must be a number of pixels, got {shorten(value)}")


def read_flag(value: Any, name: str, allowed: Sequence[int] = (0, 1)) -> int:
    """Parse a flag of an object, such as "difficult"; return its integer value, 0 if it is missing.

    Args:
        value: The flag as a number, bool or text; None if it is missing.
        name: Name of the flag, for errors.
        allowed: Allowed integer values; OpenImages also has -1 for unknown.

    Raises:
        ValueError: The value is not allowed. (A wrongly guessed flag could drop objects.)
    """
    number = 0 if value is None else _FLAGS.get(str(value).strip().lower())
    if number is None or number not in allowed:
        raise ValueError(f"{name} must be {' or '.join(map(str, allowed))}, got {shorten(value)}")
    return number


def same_name_warnings(
    source: object, names: Sequence[str], numbers: Iterable[object]
) -> list[str]:
    """Return a warning for each class name that several classes share.

    Args:
        source: The data, for the warning.
        names: Name of each class.
        numbers: Number of each class in the source, for the warning.
    """
    numbers_of: dict[str, list[str]] = {}
    for name, number in zip(names, numbers, strict=True):
        numbers_of.setdefault(name, []).append(repr(number))
    return [
        f"{source} gives the name {name!r} to the classes {' and '.join(some)}, which count as different ones: give them one number "
        "if they are one class (merged files usually need that)"
        for name, some in numbers_of.items()
        if name and len(some) > 1
    ]


def unpaired_warnings(root: Path, num_images: int, num_annotations: int, ending: str) -> list[str]:
    """Return a warning with the counts of pictures without annotation and annotations without picture.

    Args:
        root: The folder, for the warning.
        num_images: Number of pictures without an annotation.
        num_annotations: Number of annotations without a picture.
        ending: Ending of annotation files, such as ``.xml``.

    Returns:
        One warning; empty if both counts are 0.
    """
    if not num_images and not num_annotations:
        return []
    return [
        f"{root} has {counted(num_images, 'picture')} without {ending} and {num_annotations} {ending} without a picture, "
        "which are left out"
    ]


def read_each(
    objects: Iterable[Name], read: Callable[[Name], Content], name_of: Callable[[int, Name], str]
) -> list[Content]:
    """Return the result of `read` for each object, with the object's name in errors.

    Args:
        objects: Annotations or rows.
        read: Parses one object, or raises ValueError.
        name_of: Returns the name of an object for errors; its arguments are the object's index and the object.

    Raises:
        ValueError: `read` raised a ValueError; the object's name is put in front of its text.
    """
    results = []
    for number, value in enumerate(objects):
        try:
            results.append(read(value))
        except ValueError as error:
            raise ValueError(f"{name_of(number, value)}: {error}") from error
    return results


def keypoints_to_json(
    objects: Sequence[Sequence[tuple[float, float, int]]],
) -> dict[str, list[Any]]:
    """Return the JSON entries about keypoints of a picture; keypoints that are not labelled are left out.

    Args:
        objects: For each object (x, y, visibility) of its keypoints; visibility is 0 not labelled, 1 hidden, 2 visible.

    Returns:
        Four lists of equal length: ``keypoints`` holds [x, y], ``keypoint_labels`` the index of the keypoint in its object,
        ``keypoint_visibility`` 1 or 2, and ``keypoint_objects`` the index of the object.
    """
    points = [
        (x, y, number, visibility, owner)
        for owner, keypoints in enumerate(objects)
        for number, (x, y, visibility) in enumerate(keypoints)
        if visibility
    ]
    return {
        "keypoints": [[x, y] for x, y, *_ in points],
        "keypoint_labels": [number for _, _, number, *_ in points],
        "keypoint_visibility": [visibility for *_, visibility, _ in points],
        "keypoint_objects": [owner for *_, owner in points],
    }


def read_if_sound(
    read: Callable[[Name], Content], name: Name, needed_for: str = ""
) -> Content | None:
    """Return the result of `read`; None if the annotation file is damaged and may be left out.

    Args:
        read: Reads the file, or raises a ValueError or SourceError that names it.
        name: Argument of `read`.
        needed_for: Reason why the file is needed and advice, for the error; "" if a damaged file may be left out.

    Raises:
        SourceError: The storage failed, so that the content is unknown; or the file is damaged and `needed_for` is given.
    """
    try:
        return read(name)
    except (ValueError, SourceError) as error:
        if is_transient(error):
            raise SourceError(
                f"{error}: the storage failed, not the data, so nothing can be concluded; open the data again"
            ) from error
        if needed_for:
            raise SourceError(f"{error}: {needed_for}") from error
        return None


class Corners(NamedTuple):
    """A box with the coordinates that its file states.

    Attributes:
        box: Left, top, right, bottom in pixels.
        size: Height and width of its picture as the file states them, None if it does not.
        where: Name of the box, for messages.
    """

    box: Sequence[float]
    size: tuple[int, int] | None
    where: str


def choose_coords(corners: Sequence[Corners], source: object, usual: Coords) -> tuple[Coords, str]:
    """Find out from all boxes whether pixel coordinates count from 0 or from 1.

    A box that begins at 0 shows that coordinates count from 0. If no box does, a box that ends at the width or height of its
    picture shows that they count from 1 with both ends included, as in Pascal VOC; if the format usually counts from 0, a box
    must begin at 1 as well. If the boxes show neither, the format's convention is taken, with a warning.

    Args:
        corners: All boxes.
        source: The data, for the warning.
        usual: Convention of the format.

    Returns:
        The convention, and a warning; the warning is "" if the boxes show the usual convention.
    """
    firsts = [min(each.box[:2]) for each in corners]
    zeros = (
        f"{each.where} begins at {first:g}"
        for each, first in zip(corners, firsts, strict=True)
        if 0 <= first < 1
    )
    edges = (f"{each.where} ends at the width or height" for each in corners if _ends_at_edge(each))
    zero, edge = next(zeros, ""), next(edges, "")
    coords: Coords = "zero-based" if zero else "one-based"
    why = zero or edge
    if not zero and (not edge or (usual == "zero-based" and 1 not in firsts)):
        coords, why = usual, "no box shows it and this format usually does" if corners else ""
    elif coords == usual:
        why = ""
    return coords, why and (
        f"{source} is read with coordinates that count from {_FIRST[coords]}, as {why} (files of Pascal VOC from 1, "
        "tables and other formats from 0): say coords='one-based' or 'zero-based', whichever is right"
    )


def _ends_at_edge(corners: Corners) -> bool:
    """Return whether a box ends exactly at the stated width or height of its picture."""
    height, width = corners.size or (None, None)
    return corners.box[2] == width or corners.box[3] == height
