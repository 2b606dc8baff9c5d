"""Checks of annotations and of arguments about them: boxes, the origin of their coordinates, classes, sizes, flags."""

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
"""Reason and advice for `read_if_sound` while names of classes are collected."""
OTHER_NAMES = ("bbox", "bboxes", "bounding_box", "bounding_boxes")
"""Names that other programs give to boxes; this package reads ``boxes`` alone and warns about these."""

Coords = Literal["one-based", "zero-based"]

_FIRST = {"one-based": 1, "zero-based": 0}  # coordinate of the first pixel
# pandas writes whole numbers with a point where a column has gaps.
_FLAGS = {"0": 0, "1": 1, "-1": -1, "0.0": 0, "1.0": 1, "-1.0": -1, "false": 0, "true": 1, "nan": 0}


def class_number(numbers: Mapping[str, int], name: str, where: str) -> int:
    """Return the number of a class.

    Raises:
        ValueError: There is no such class.
    """
    if name not in numbers:
        raise ValueError(f"{where}: {name!r} is none of the classes ({few_of(numbers)})")
    return numbers[name]


def require_choice(name: str, value: object, choices: Sequence[object]) -> None:
    """Refuse an argument that is none of its choices.

    Raises:
        SourceError: The argument is none of them.
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
    """Return the part of a box that lies in its picture, None if no part of it does.

    Args:
        box: Left, top, right, bottom in pixels.
        size: Height and width of the picture.
        outside: Whether a box that leaves the picture is refused or clipped.
        where: Name of file and object, for errors.
        raw: The box as it is written, for errors.
        hint: A likely cause, for errors.

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
    """Refuse a picture whose size differs from the size that its annotations state.

    Args:
        stated: Height and width, 0 for one that is not stated; None for neither.
        size: Height and width of the picture, turned upright by its EXIF orientation; None if its header cannot be read, which
            the decoder reports later.
        where: Name of the annotation, for errors.

    Raises:
        ValueError: The sizes differ, so the boxes lie in another frame than the pixels.
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
    """Return a width or height that annotations state, in pixels; 0 if it is missing.

    Args:
        value: A number of any type, or text, as files and tables hold it; None for a missing one.
        where: Name of the value, for errors.

    Raises:
        ValueError: The value is no whole number of pixels.
    """
    text = "0" if value is None else str(value).strip() or "0"
    with suppress(ValueError):  # text that is no number at all
        number = 0.0 if text == "nan" else float(text)  # tables of pandas have NaN for nothing
        if 0 <= number < 1 << 31 and number.is_integer():
            return int(number)
    raise ValueError(f"{where} must be a number of pixels, got {shorten(value)}")


def read_flag(value: Any, name: str, allowed: Sequence[int] = (0, 1)) -> int:
    """Return a flag of an object, 0 if it is missing.

    Args:
        value: A number, a truth value or text, as files and tables hold it; None for a missing one.
        name: Name of the flag, for errors.
        allowed: Allowed values; OpenImages also has -1 for unknown.

    Raises:
        ValueError: The value is neither 0, 1, true nor false. A guessed flag would make objects vanish.
    """
    number = 0 if value is None else _FLAGS.get(str(value).strip().lower())
    if number is None or number not in allowed:
        raise ValueError(f"{name} must be {' or '.join(map(str, allowed))}, got {shorten(value)}")
    return number


def same_name_warnings(
    source: object, names: Sequence[str], numbers: Iterable[object]
) -> list[str]:
    """Return a warning for each name that several classes share, with their numbers in the source."""
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
    """Return a warning about pictures and annotations without a counterpart; none if each has one."""
    if not num_images and not num_annotations:
        return []
    return [
        f"{root} has {counted(num_images, 'picture')} without {ending} and {num_annotations} {ending} without a picture, "
        "which are left out"
    ]


def read_each(
    objects: Iterable[Name], read: Callable[[Name], Content], name_of: Callable[[int, Name], str]
) -> list[Content]:
    """Return the result of `read` for each object.

    Args:
        objects: Annotations or rows.
        read: Reads value object, or raises ValueError.
        name_of: Returns the name of an object, by its number and itself, for errors.

    Raises:
        ValueError: `read` raised it; the text begins with the name of the object.
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
    """Return the fields of the keypoints of all objects in a picture, without those that are not labelled.

    Args:
        objects: For each object x, y and visibility of its keypoints: 0 not labelled, 1 hidden, 2 visible.
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
    """Return the content of a file of annotations, None if it is damaged and not needed.

    Args:
        read: Reads the file, or raises ValueError or SourceError with a text that names it.
        name: Argument of `read`.
        needed_for: Why the file is needed, and what to do without it; "" if it may be left out.

    Raises:
        SourceError: The storage failed, so that the content is unknown; or the file is damaged and needed.
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
    """A box as it is written.

    Attributes:
        box: Left, top, right, bottom.
        size: Height and width of its picture as stated, None without.
        where: Name of the box, for messages.
    """

    box: Sequence[float]
    size: tuple[int, int] | None
    where: str


def choose_coords(corners: Sequence[Corners], source: object, usual: Coords) -> tuple[Coords, str]:
    """Return whether coordinates count from 0 or from 1, and a warning about it or "".

    A box that begins at 0 shows that coordinates count from 0. Without one, a box that ends at the width or height of its picture
    shows that they count from 1 with both ends included, as in Pascal VOC; in a format that usually counts from 0, a box must
    begin at 1 as well. Otherwise the format's convention is taken, with a warning.

    Args:
        corners: All boxes.
        source: The data, for the warning.
        usual: Convention of the format.
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
    """Whether the last coordinate of a box is the width or height that its picture is stated to have."""
    height, width = corners.size or (None, None)
    return corners.box[2] == width or corners.box[3] == height
