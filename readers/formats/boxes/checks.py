"""What pictures with annotations have to keep to, and how these are read: boxes and from where their corners count, classes, arguments."""

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
"""For `read_if_sound`, where names of classes are collected."""
OTHER_NAMES = ("bbox", "bboxes", "bounding_box", "bounding_boxes")
"""Names that boxes have elsewhere; this package reads them as ``boxes``."""

Coords = Literal["one-based", "zero-based"]

_FIRST = {"one-based": 1, "zero-based": 0}
# pandas writes whole numbers with a point where a column has gaps.
_FLAGS = {"0": 0, "1": 1, "-1": -1, "0.0": 0, "1.0": 1, "-1.0": -1, "false": 0, "true": 1, "nan": 0}


def class_number(numbers: Mapping[str, int], name: str, where: str) -> int:
    """The number of a class.

    Raises:
        ValueError: There is no such class.
    """
    if name not in numbers:
        raise ValueError(f"{where}: {name!r} is none of the classes ({few_of(numbers)})")
    return numbers[name]


def require_choice(name: str, value: object, choices: Sequence[object]) -> None:
    """See that an argument is one of its choices.

    Raises:
        SourceError: It is not.
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
    """Return a box that lies in its picture, None where it is cut and nothing is left of it.

    Args:
        box: Left, top, right, bottom in pixels.
        size: Height and width of the picture.
        outside: What to do with one that leaves the picture.
        where: Names file and object, for errors.
        raw: The box as it is written, for errors.
        hint: What may be meant, for errors.

    Raises:
        ValueError: It has no area, or leaves the picture and shall not be cut.
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
    """See that the size that annotations state for a picture is the one that it has.

    Args:
        stated: Height and width, 0 where one is not stated; None for neither.
        size: Height and width of the picture, turned upright by its EXIF orientation; None where its bytes begin like no
            picture, of which the decoder tells more.
        where: Names what states it.

    Raises:
        ValueError: It has another one, so that its boxes lie in another frame than its pixels.
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
    """Return a width or height that annotations state, in pixels; 0 where they state none.

    Args:
        value: A number of any type, or text, as files and tables hold it.
        where: Names it, for errors.

    Raises:
        ValueError: It is there, and no whole number of pixels.
    """
    text = "0" if value is None else str(value).strip() or "0"
    with suppress(ValueError):  # text that is no number at all
        number = 0.0 if text == "nan" else float(text)  # tables of pandas have NaN for nothing
        if 0 <= number < 1 << 31 and number.is_integer():
            return int(number)
    raise ValueError(f"{where} must be a number of pixels, got {shorten(value)}")


def read_flag(value: Any, name: str, allowed: Sequence[int] = (0, 1)) -> int:
    """Return a flag of an object, 0 where it has none.

    Args:
        value: A number, a truth value or text, as files and tables hold it.
        name: Names it, for errors.
        allowed: OpenImages has -1 too, which says that it is not known.

    Raises:
        ValueError: It is there, and neither 0, 1, true nor false: a flag that is guessed makes objects vanish.
    """
    number = 0 if value is None else _FLAGS.get(str(value).strip().lower())
    if number is None or number not in allowed:
        raise ValueError(f"{name} must be {' or '.join(map(str, allowed))}, got {shorten(value)}")
    return number


def same_name_warnings(
    source: object, names: Sequence[str], numbers: Iterable[object]
) -> list[str]:
    """Return a warning for each name that several classes have, with their numbers in the source."""
    found: dict[str, list[str]] = {}
    for name, number in zip(names, numbers, strict=True):
        found.setdefault(name, []).append(repr(number))
    return [
        f"{source} gives the name {name!r} to the classes {' and '.join(some)}, which count as different ones: give them one number "
        "if they are one class (files that were put together mostly need that)"
        for name, some in found.items()
        if name and len(some) > 1
    ]


def unpaired_warnings(root: Path, num_images: int, num_annotations: int, ending: str) -> list[str]:
    """A sentence about pictures and annotations that have no counterpart, none where there are none."""
    if not num_images and not num_annotations:
        return []
    return [
        f"{root} has {counted(num_images, 'picture')} without {ending} and {num_annotations} {ending} without a picture, "
        "which are no samples"
    ]


def read_each(
    objects: Iterable[Name], read: Callable[[Name], Content], name_of: Callable[[int, Name], str]
) -> list[Content]:
    """Return what `read` makes of each object.

    Args:
        objects: Annotations, rows.
        read: Makes something of one, or raises ValueError.
        name_of: Names an object by its number and itself.

    Raises:
        ValueError: As `read` raised it, with the name of the object before it.
    """
    found = []
    for number, one in enumerate(objects):
        try:
            found.append(read(one))
        except ValueError as error:
            raise ValueError(f"{name_of(number, one)}: {error}") from error
    return found


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
    """Return what a file of annotations holds, None where it is damaged for good and not needed.

    Args:
        read: Reads it, or raises ValueError or SourceError with a text that names it.
        name: What `read` is given.
        needed_for: Why nothing can be decided without it, and what to do; "" where it can be left out.

    Raises:
        SourceError: The storage failed, so that what the file holds is not known; or it is damaged, and needed.
    """
    try:
        return read(name)
    except (ValueError, SourceError) as error:
        if is_transient(error):
            raise SourceError(
                f"{error}: the storage failed and not the data, so that nothing is concluded from it; open the data again"
            ) from error
        if needed_for:
            raise SourceError(f"{error}: {needed_for}") from error
        return None


class Corners(NamedTuple):
    """A box as it is written.

    Attributes:
        box: Left, top, right, bottom.
        size: Height and width of its picture as they are stated, None where they are not.
        where: Names the box.
    """

    box: Sequence[float]
    size: tuple[int, int] | None
    where: str


def choose_coords(found: Sequence[Corners], source: object, usual: Coords) -> tuple[Coords, str]:
    """Tell from where coordinates count, and what is to be said of it.

    A box that begins at 0 shows that they count from 0. Where none does, one that ends at the width or height of
    its picture shows that they count from 1, both ends included, as Pascal VOC's do; of a format that mostly counts from
    0, one must begin at 1 as well. Otherwise they are taken as is usual, and a remark says so.

    Args:
        found: All boxes.
        source: Names the data.
        usual: The convention of the format.

    Returns:
        The convention, and a sentence or "".
    """
    begins = [min(one.box[:2]) for one in found]
    zero = next((f"{one.where} begins at {at:g}" for one, at in zip(found, begins, strict=True) if 0 <= at < 1), "")  # fmt: skip
    edge = next((f"{one.where} ends at the width or height" for one in found if one.size and (one.box[2] == one.size[1] or one.box[3] == one.size[0])), "")  # fmt: skip
    shown: Coords = "zero-based" if zero else "one-based"
    why = zero or edge
    if not zero and (not edge or (usual == "zero-based" and 1 not in begins)):
        shown, why = usual, "no box shows it and this format mostly does" if found else ""
    elif shown == usual:
        why = ""
    return shown, why and (
        f"{source} is read with coordinates that count from {_FIRST[shown]}, as {why} (files of Pascal VOC from 1, "
        "tables and other formats from 0): say coords='one-based' or 'zero-based', whichever is right"
    )
