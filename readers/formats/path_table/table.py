"""A table in memory, and the options of a caller about its columns."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from readers.formats.boxes.checks import Coords
from readers.formats.columns import shorten
from readers.sample import SourceError

BoxFormat = Literal["xyxy", "xywh"]


@dataclass(frozen=True)
class TableOptions:
    """Options of a caller about the columns of a table; see `PathTableDataset` for those that are not listed here.

    Attributes:
        num_classes: Number of classes in all splits of the table, if labels are class numbers; 0 if unknown.
    """

    image: str | None = None
    label: str | Sequence[str] | None = None
    key: str | None = None
    classes: tuple[str, ...] | None = None
    label_separator: str | None = None
    multi_label: bool | None = None
    boxes: str | Sequence[str] | None = None
    box_format: BoxFormat = "xyxy"
    coords: Coords | None = None
    num_classes: int = 0


@dataclass(frozen=True)
class Table:
    """A table in memory: columns of equal length.

    Attributes:
        source: Path of the file, for errors.
        columns: Values of each column by name, in stored order. Values of a text file are str.
        lines: Number of the last line of each row in a text file, from 1; None for other files.
        class_names: Class names that the file states for a column (Hugging Face's ClassLabel), by column name.
    """

    source: str
    columns: dict[str, list[Any]]
    lines: Sequence[int] | None = None
    class_names: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), []))

    def place(self, row: int) -> str:
        """Return text for messages that names the file and the line or row."""
        return f"{self.source}, {self.where([row])}"

    def where(self, rows: Sequence[int]) -> str:
        """Return text for messages that names rows: "lines 3 and 8"."""
        word = "row" if self.lines is None else "line"
        numbers = [str(row if self.lines is None else self.lines[row]) for row in rows]
        return f"{word}{'s' * (len(rows) > 1)} {' and '.join(numbers)}"

    def column(self, name: str, role: str) -> list[Any]:
        """Return the values of a column.

        Args:
            name: Name of the column.
            role: Option with which the caller names it, for the error.

        Raises:
            SourceError: The column is missing.
        """
        if name not in self.columns:
            raise SourceError(
                f"{self.source} has no column {name!r} for {role}=: its columns are {', '.join(self.columns)}"
            )
        return self.columns[name]

    def only(self, rows: Sequence[int]) -> "Table":
        """Return a table of the rows with these indices."""
        columns = {name: [values[row] for row in rows] for name, values in self.columns.items()}
        lines = rows if self.lines is None else [self.lines[row] for row in rows]
        return Table(self.source, columns, lines, self.class_names)

    def json_list(self, row: int, value: Any, what: str, advice: str) -> list[Any]:
        """Return the list in a cell, which holds a list or JSON text of one; an empty cell gives an empty list.

        Args:
            row: Index of the row, for the error.
            value: Value of the cell.
            what: Name of the value, for the error.
            advice: Advice at the end of the error.

        Raises:
            SourceError: The cell holds no list.
        """
        if value in (None, ""):
            return []
        try:
            found = json.loads(value) if isinstance(value, str) else value
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, list):
            raise SourceError(
                f"{self.place(row)}: the {what} {shorten(value)} is no JSON list: {advice}"
            )
        return found
