"""Which column of a table names the image, which is the label, the key, the split; and which rows make a sample."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from readers.detect.splits import choose_split_of_column
from readers.formats.columns import FURTHER_LABEL_NAMES, LABEL_NAMES
from readers.formats.path_table.table import Table
from readers.plural import counted
from readers.sample import SourceError, is_image_file

IMAGE_NAMES = (
    *("image", "image_path", "img_path", "file_name", "file", "filepath", "file_path", "filename", "path"),
    *("img", "image_file", "image_name", "picture", "photo", "jpg", "jpeg", "png"),
    *("image_id", "imageid", "img_id", "id"),
)  # fmt: skip
"""Usual names of the column of paths, in lower case; those behind mostly hold names without extension."""

_LABEL_NAMES = tuple(dict.fromkeys(name.lower() for name in (*LABEL_NAMES, *FURTHER_LABEL_NAMES)))
KEY_NAMES = ("__key__", "key", "id")
_SIDES = ("xmin", "ymin", "xmax", "ymax")


def find_image(table: Table, asked: str | None) -> tuple[str, list[str]]:
    """Return the column of paths, and others that name images as well.

    Raises:
        SourceError: No column names images, or there is no column of the name that the caller gives.
    """
    if asked is not None:
        table.column(asked, "image")
        return asked, []
    able = [name for name in table.columns if is_image_file(_first(table.columns[name]))]
    found = usual(table.columns, IMAGE_NAMES)
    if able and found not in able:
        found = usual(able, IMAGE_NAMES) or able[0]
        others = [name for name in able if name != found]
        if others and found not in IMAGE_NAMES:
            raise SourceError(
                f"{table.source} has several columns of image files ({', '.join(able)}): name one of them with image="
            )
    if found is None or not isinstance(_first(table.columns[found]), str):
        raise SourceError(
            f"{table.source} has no column that is known to name images (its columns are {', '.join(table.columns)}): name it "
            "with image="
        )
    return found, [name for name in able if name != found]


def find_label(table: Table, taken: Iterable[str]) -> tuple[str | None, list[str]]:
    """Return the column of labels, None where no usual name is there, and others of usual names."""
    free = [name for name in table.columns if name not in {*taken}]
    able = [name for usual_name in _LABEL_NAMES for name in free if name.lower() == usual_name]
    return (able[0], able[1:]) if able else (None, [])


def find_column(table: Table, asked: str | None, option: str, names: Sequence[str]) -> str | None:
    """Return the column that the caller names, else the first of some usual names, or None.

    Raises:
        SourceError: There is no column of the name that the caller gives as `option`.
    """
    if asked is not None:
        table.column(asked, option)
        return asked
    return usual(table.columns, names)


def choose_rows(
    table: Table, split: str | None, column: str | None, is_named: bool
) -> tuple[Table, str]:
    """Return the rows of a split, all of them where they are of one; and a sentence about rows without a split, or "".

    Args:
        table: All rows.
        split: The split, None where there is but one.
        column: The column of splits; None looks for the usual name.
        is_named: See `choose_split_of_column`.

    Raises:
        SourceError: There is no such column or split, or there are several splits and the caller names none.
    """
    found = find_column(table, column, "split_column", ("split",))
    values = table.columns[found] if found else []
    splits = ["" if value is None else str(value).strip() for value in values]
    wanted, remark = choose_split_of_column(
        Counter(splits), split, table.source, is_named, found or "split"
    )
    if wanted is None:
        return table, remark
    return table.only([row for row, value in enumerate(splits) if value == wanted]), remark


def rows_by_image(names: Sequence[str]) -> list[list[int]]:
    """Return the rows of each image, images in the order of their first rows."""
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        rows.setdefault(name, []).append(row)
    return list(rows.values())


def repeated(table: Table, names: Sequence[str], labels: Sequence[Any] | None) -> list[str]:
    """Return a warning about images that several rows name although each row is a sample.

    Raises:
        SourceError: Two rows of an image have different labels.
    """
    several = [rows for rows in rows_by_image(names) if len(rows) > 1]
    for rows in several if labels is not None else ():
        assert labels is not None
        other = next((row for row in rows if labels[row] != labels[rows[0]]), None)
        if other is not None:
            both = [rows[0], other]
            sides = box_sides(table)
            boxes = f"boxes={sides} where each row is a box, " if sides else ""
            raise SourceError(
                f"{table.source}, {table.where(both)}: {names[other]} has the labels {labels[both[0]]} and {labels[other]}: say "
                f"{boxes}multi_label=True where an image has several, else remove a row"
            )
    if not several:
        return []
    count = sum(map(len, several)) - len(several)
    first, sides = several[0], box_sides(table)
    remedy = f"remove {counted(count, 'row')} to have each image once"
    if sides:
        remedy = f"say boxes={sides} where each row is a box, else {remedy}"
    return [
        f"{table.source} names {counted(len(several), 'image')} in several rows (first {names[first[0]]}, "
        f"{table.where(first[:2])}), and each row is a sample: {remedy}"
    ]


def joined(values: Sequence[Any]) -> Any:
    """Return the value of a column for an image: one value, or the list of the values of its rows if they differ."""
    return values[0] if all(value == values[0] for value in values) else list(values)


def remark(table: Table, role: str, taken: str, others: Sequence[str]) -> list[str]:
    """Return a warning about a column that was taken although others may be meant."""
    if role == "image" and taken.lower() == role:  # image and path, but not image and mask
        others = [name for name in others if name.lower() in IMAGE_NAMES]
    if not others:
        return []
    return [
        f"{table.source}: of the columns {', '.join([taken, *others])}, which may each be the {role}, {taken} was taken; say "
        f"{role}={taken!r}, or name another one"
    ]


def box_sides(table: Table) -> list[str]:
    """Return the columns with the names of box sides; none if one of the four is missing."""
    sides = [usual(table.columns, (side,)) for side in _SIDES]
    return [side for side in sides if side is not None] if None not in sides else []


def about_boxes(table: Table) -> list[str]:
    """Return a warning about columns with the names of box sides, if boxes= is not given."""
    sides = box_sides(table)
    if not sides:
        return []
    return [
        f"{table.source} is read without the boxes that its columns {', '.join(sides)} look like: say boxes={sides} to have them"
    ]


def usual(names: Iterable[str], wanted: Sequence[str]) -> str | None:
    """Return the first of some names that exists, whatever its case, or None."""
    there: dict[str, str] = {}
    for name in names:
        there.setdefault(name.lower(), name)
    return next((there[name] for name in wanted if name in there), None)


def _first(values: Sequence[object]) -> str:
    """Return the first value that is not empty, "" if it is no text."""
    found = next((value for value in values if value not in (None, "")), "")
    return found if isinstance(found, str) else ""
