"""Parser of YOLO label files, and conversion of their rows to objects in pixels."""

import math
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

from readers.formats.boxes.checks import Outside, fit_box, read_if_sound
from readers.formats.boxes.oriented import fit_corners
from readers.formats.text import filled_rows

Task = Literal["detect", "segment", "pose", "obb", "semantic"]

_RANGE = -0.01, 1.01  # of relative coordinates, which rounding moves out of 0 to 1
# Oriented boxes that lie outside are left out if asked for. Those of large objects reach far beyond their tile; pixels are larger.
_FAR = -10.0, 10.0
_SHOWN = 60  # characters of a word that an error quotes
_BOX, _CORNERS = 4, 8  # count of numbers after the class: of a box, of a rotated box


class Row(NamedTuple):
    """One row of a label file.

    Attributes:
        line: Line number, from 1.
        label: Class number.
        numbers: The numbers after the class number.
    """

    line: int
    label: int
    numbers: tuple[float, ...]


class Labels(NamedTuple):
    """The rules that the rows of a dataset must obey.

    Attributes:
        task: Kind of the rows.
        num_classes: Number of classes; class numbers must be smaller.
        kpt_shape: (keypoints per object, numbers per keypoint); None without keypoints.
    """

    task: Task
    num_classes: int
    kpt_shape: tuple[int, int] | None


class Object(NamedTuple):
    """One object, in pixels of the upright picture.

    Attributes:
        label: Class number.
        box: Left, top, right, bottom.
        polygon: x, y, x, y, ... of the outline, or of the corners of a rotated box; () without either.
        keypoints: (x, y, visibility) of each keypoint; visibility is 0 not labelled, 1 hidden, 2 visible. () without keypoints.
    """

    label: int
    box: list[float]
    polygon: tuple[float, ...] = ()
    keypoints: tuple[tuple[float, float, int], ...] = ()


def read_rows(data: bytes, name: str) -> list[Row]:
    """Parse a label file; return its rows, including repeated ones.

    Raises:
        ValueError: A row does not consist of numbers; the text names file and line.
    """
    result = []
    for line, words in filled_rows(data, name):
        try:
            values = tuple(map(float, words))
        except ValueError as error:  # could not convert string to float: 'x'
            wrong = str(error).rpartition(": ")[2]
            raise ValueError(f"{name}:{line}: {wrong[:_SHOWN]} is no number") from None
        if not all(map(math.isfinite, values)) or values[0] != int(values[0]):
            raise ValueError(f"{name}:{line}: class {words[0]} must be whole, and all else numbers")
        result.append(Row(line, int(values[0]), values[1:]))
    return result


def drop_repeated(rows: Iterable[Row]) -> list[Row]:
    """Return the rows without those that repeat an earlier row, compared by class and numbers."""
    different: dict[tuple[int, tuple[float, ...]], Row] = {}
    for row in rows:
        different.setdefault((row.label, row.numbers), row)
    return list(different.values())


def find_task(
    read: Callable[[str], bytes], files: Iterable[str], kpt_shape: tuple[int, int] | None
) -> Task | None:
    """Find the task of a dataset by the count of numbers in the rows of its label files, and return it.

    Args:
        read: Returns the content of a file by its name, or raises ValueError.
        files: Names of the label files; reading stops as soon as the task is clear.
        kpt_shape: See `Labels`; if it is given, the task is "pose".

    Returns:
        None if all rows are outlines of four corners, which may be rotated boxes.
    """
    if kpt_shape:
        return "pose"
    any_corners = False
    for file in files:
        rows = read_if_sound(lambda name: read_rows(read(name), name), file)
        lengths = {len(row.numbers) for row in rows or ()}
        if lengths == {_BOX}:
            return "detect"
        any_corners = any_corners or lengths == {_CORNERS}
        if lengths and min(lengths) > _BOX + 1 and any(one != _CORNERS for one in lengths):
            return "segment"
    return None if any_corners else "detect"


def objects_of(
    rows: Iterable[Row], name: str, labels: Labels, size: tuple[int, int], outside: Outside
) -> list[Object]:
    """Convert the rows of a label file to objects; objects whose boxes lie outside the picture are left out.

    Args:
        rows: The rows of one file.
        name: Name of the file, for errors.
        labels: The rules for rows.
        size: Height and width of the upright picture.
        outside: "raise" refuses boxes that leave the picture by more than 0.01 of its size, "clip" clips them; boxes that leave
            it by less, due to rounding, are always clipped. For oriented boxes see `fit_corners`.

    Raises:
        ValueError: A row violates the rules; the text names file and line.
    """
    result = []
    for row in rows:
        where = f"{name}:{row.line}"
        _check(row, where, labels, outside)
        one = _object(row, labels, size)
        if labels.task == "obb":
            result += [one] if fit_corners(one.polygon, size, outside, where) else []
            continue
        slack = [-_RANGE[0] * length for length in (size[1], size[0])]
        box = [
            _snapped(value, length, slack[at % 2])
            for at, (value, length) in enumerate(zip(one.box, (size[1], size[0]) * 2, strict=True))
        ]
        fitted = fit_box(box, size, outside, where)
        if fitted:
            result.append(one._replace(box=fitted))
    return result


def _check(row: Row, where: str, labels: Labels, outside: Outside) -> None:
    if not 0 <= row.label < labels.num_classes:
        first = " (1-based?)" if row.label == labels.num_classes else ""
        raise ValueError(
            f"{where}: class {row.label}, names are 0..{labels.num_classes - 1}{first}"
        )
    number, shares = len(row.numbers), row.numbers
    expected, right = {
        "detect": ("4", number == _BOX),
        "obb": (
            "8: x, y of four corners, without the confidence of predictions",
            number == _CORNERS,
        ),
        "segment": ("6 or more, in pairs", number >= 6 and number % 2 == 0),
    }.get(labels.task, ("", True))
    if labels.kpt_shape and labels.task == "pose":
        points, each = labels.kpt_shape
        expected, right = f"4 and {points} times {each}", number == _BOX + points * each
        if right and each == 3:
            seen = row.numbers[_BOX + 2 :: 3]
            if not {*seen} <= {0, 1, 2}:
                raise ValueError(f"{where}: the visibility of a keypoint must be 0, 1 or 2")
            shares = tuple(
                value for at, value in enumerate(row.numbers) if at < _BOX or (at - _BOX) % 3 != 2
            )
    if right and labels.task == "obb":
        # Corners may lie outside; Ultralytics also checks the centre and the size of the box around them only.
        spans = [(min(one), max(one)) for one in (shares[::2], shares[1::2])]
        shares = tuple(value for low, high in spans for value in ((low + high) / 2, high - low))
    if not right:
        raise ValueError(
            f"{where}: {number} numbers behind the class, task={labels.task!r} has {expected}; say task= if it is another"
        )
    low, high = _FAR if labels.task == "obb" and outside == "clip" else _RANGE
    wrong = next((value for value in shares if not low <= value <= high), None)
    if wrong is not None:
        raise ValueError(
            f"{where}: {wrong:g}{' (of the box around the corners)' if labels.task == 'obb' else ''} is no share of the picture's "
            f"size, which is from {low:g} to {high:g} (pixels?)"
        )


def _object(row: Row, labels: Labels, size: tuple[int, int]) -> Object:
    height, width = size
    if labels.task in ("segment", "obb"):
        outline = tuple(
            value * (height if at % 2 else width) for at, value in enumerate(row.numbers)
        )
        xs, ys = outline[::2], outline[1::2]
        return Object(row.label, [min(xs), min(ys), max(xs), max(ys)], outline)
    x, y, w, h = row.numbers[:_BOX]
    box = [(x - w / 2) * width, (y - h / 2) * height, (x + w / 2) * width, (y + h / 2) * height]
    if labels.task != "pose" or not labels.kpt_shape:
        return Object(row.label, box)
    each, rest = labels.kpt_shape[1], row.numbers[_BOX:]
    points = tuple(
        (rest[at] * width, rest[at + 1] * height, int(rest[at + 2]) if each == 3 else 2)
        for at in range(0, len(rest), each)
    )
    return Object(row.label, box, (), points)


def _snapped(value: float, length: int, slack: float) -> float:
    """Return a coordinate; if it lies outside of 0 to `length` by at most `slack`, return the nearer of the two."""
    if -slack <= value < 0:
        return 0.0
    if length < value <= length + slack:
        return float(length)
    return value
