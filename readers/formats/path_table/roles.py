"""Choice of a table's columns for image, label, key and split, and grouping of its rows into samples."""

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
"""Usual names of the column of paths, in lower case; the last ones mostly hold names without extension."""

_LABEL_NAMES = tuple(dict.fromkeys(name.lower() for name in (*LABEL_NAMES, *FURTHER_LABEL_NAMES)))
KEY_NAMES = ("__key__", "key", "id")
_SIDES = ("xmin", "ymin", "xmax", "ymax")


def find_image(table: Table, asked: str | None) -> tuple[str, list[str]]:
    """Return the name of the column of paths, and the names of other columns that also name images.

    Args:
        table: The rows.
        asked: Column that the caller names, None to search for it.

    Raises:
        SourceError: No column names images, or the column `asked` is missing.
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
    """Return the name of the label column, and other columns with usual names of labels.

    Args:
        table: The rows.
        taken: Columns that cannot be the label.

    Returns:
        (None, []) if no column has a usual name.
    """
    free = [name for name in table.columns if name not in {*taken}]
    able = [name for usual_name in _LABEL_NAMES for name in free if name.lower() == usual_name]
    return (able[0], able[1:]) if able else (None, [])


def find_column(table: Table, asked: str | None, option: str, names: Sequence[str]) -> str | None:
    """Return the column that the caller names, or else the first usual name that exists, or None.

    Args:
        table: The rows.
        asked: Column that the caller names, None to search for it.
        option: Name of the option with which the caller names it, for the error.
        names: Usual names.

    Raises:
        SourceError: The column `asked` is missing.
    """
    if asked is not None:
        table.column(asked, option)
        return asked
    return usual(table.columns, names)


def choose_rows(
    table: Table, split: str | None, column: str | None, is_named: bool
) -> tuple[Table, str]:
    """Return the rows of a split, or all rows if the table has only one split.

    Args:
        table: All rows.
        split: Name of the split; None if there is only one.
        column: Name of the column of splits; None for ``split``, if it exists.
        is_named: Whether the file is named after the split; see `choose_split_of_column`.

    Returns:
        The rows; and a warning about rows without a split, "" if there are none.

    Raises:
        SourceError: The column or split does not exist, or there are several splits but `split` is None.
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
    """Group row indices by image; images follow the order of their first rows.

    Args:
        names: Image of each row.
    """
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        rows.setdefault(name, []).append(row)
    return list(rows.values())


def repeated(table: Table, names: Sequence[str], labels: Sequence[Any] | None) -> list[str]:
    """Return a warning if several rows name the same image although each row is a sample.

    Args:
        table: The rows.
        names: Image of each row.
        labels: Label of each row, None if there are none.

    Returns:
        One warning; empty if each image has one row.

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
    """Return the value of a column for an image with several rows: the common value, or the list of all if they differ."""
    return values[0] if all(value == values[0] for value in values) else list(values)


def remark(table: Table, role: str, taken: str, others: Sequence[str]) -> list[str]:
    """Return a warning if other columns may be meant for a role; empty otherwise.

    Args:
        table: The rows.
        role: "image" or "label".
        taken: Column that was taken for the role.
        others: Other columns that may be meant.
    """
    if role == "image" and taken.lower() == role:  # image and path, but not image and mask
        others = [name for name in others if name.lower() in IMAGE_NAMES]
    if not others:
        return []
    return [
        f"{table.source}: of the columns {', '.join([taken, *others])}, which may each be the {role}, {taken} was taken; say "
        f"{role}={taken!r}, or name another one"
    ]


def box_sides(table: Table) -> list[str]:
    """Return the names of the columns xmin, ymin, xmax and ymax, in any case; empty if one of the four is missing."""
    sides = [usual(table.columns, (side,)) for side in _SIDES]
    return [side for side in sides if side is not None] if None not in sides else []


def about_boxes(table: Table) -> list[str]:
    """Return a warning if the table has columns xmin, ymin, xmax and ymax, for callers that did not pass ``boxes``."""
    sides = box_sides(table)
    if not sides:
        return []
    return [
        f"{table.source} is read without the boxes that its columns {', '.join(sides)} look like: say boxes={sides} to have them"
    ]


def usual(names: Iterable[str], wanted: Sequence[str]) -> str | None:
    """Return the first wanted name that exists, compared without case, as it is spelled in `names`; None if none does."""
    there: dict[str, str] = {}
    for name in names:
        there.setdefault(name.lower(), name)
    return next((there[name] for name in wanted if name in there), None)


def _first(values: Sequence[object]) -> str:
    """Return the first value that is not empty; "" if that is no str."""
    found = next((value for value in values if value not in (None, "")), "")
    return found if isinstance(found, str) else ""
