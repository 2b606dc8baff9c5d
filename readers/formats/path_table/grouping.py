"""Which rows of a table make a sample: each, or all that name one image."""

from collections.abc import Sequence
from typing import Any

from readers.formats.path_table.roles import box_sides
from readers.formats.path_table.table import Table
from readers.plural import counted
from readers.sample import SourceError


def rows_by_image(names: Sequence[str]) -> list[list[int]]:
    """Return the rows of each image, images in the order of their first rows."""
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        rows.setdefault(name, []).append(row)
    return list(rows.values())


def repeated(table: Table, names: Sequence[str], labels: Sequence[Any] | None) -> list[str]:
    """Sentences about images that several rows name, each of which is a sample.

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
    """Return what a column says of an image: its one value, or the list of those of its rows where they differ."""
    return values[0] if all(value == values[0] for value in values) else list(values)
