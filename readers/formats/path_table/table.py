"""A table as it was read, and what a caller says of its columns."""

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
    """What a caller says of the columns; see `PathTableDataset`.

    Attributes:
        num_classes: Classes in all splits of the table, for columns whose classes are numbers; 0 if it is not known.
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
    """Columns of one length.

    Attributes:
        source: Its file, for errors.
        columns: Values by name, in stored order. Of a text file all are text.
        lines: Where each row ends in a text file, counted from 1; None where rows have numbers alone.
        class_names: Names of classes that the file has for a column (Hugging Face's ClassLabel).
    """

    source: str
    columns: dict[str, list[Any]]
    lines: Sequence[int] | None = None
    class_names: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), []))

    def place(self, row: int) -> str:
        """Return the file and the line or row, for messages."""
        return f"{self.source}, {self.where([row])}"

    def where(self, rows: Sequence[int]) -> str:
        """Return some rows of the table for messages: "lines 3 and 8"."""
        word = "row" if self.lines is None else "line"
        numbers = [str(row if self.lines is None else self.lines[row]) for row in rows]
        return f"{word}{'s' * (len(rows) > 1)} {' and '.join(numbers)}"

    def column(self, name: str, role: str) -> list[Any]:
        """Return a column.

        Raises:
            SourceError: There is no column of that name.
        """
        if name not in self.columns:
            raise SourceError(
                f"{self.source} has no column {name!r} for {role}=: its columns are {', '.join(self.columns)}"
            )
        return self.columns[name]

    def only(self, rows: Sequence[int]) -> "Table":
        """Return some of the rows."""
        columns = {name: [values[row] for row in rows] for name, values in self.columns.items()}
        lines = rows if self.lines is None else [self.lines[row] for row in rows]
        return Table(self.source, columns, lines, self.class_names)

    def json_list(self, row: int, value: Any, what: str, advice: str) -> list[Any]:
        """Return the list that a cell holds, as a list or as JSON; an empty cell is an empty list.

        Raises:
            SourceError: The cell holds something else; the message names it by `what`, and ends with `advice`.
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
