"""Reading a table by the ending of its file."""

from collections.abc import Sequence
from pathlib import Path

from readers.formats.path_table.arrow_rows import ARROW_SUFFIXES, read_arrow
from readers.formats.path_table.metadata_folder import read_json_lines
from readers.formats.path_table.table import Table
from readers.formats.path_table.text_rows import read_text


def read_table(
    path: Path, delimiter: str | None = None, header: Sequence[str] | None = None
) -> Table:
    """Read all rows of a file: Parquet, Arrow, JSON lines, else text; see `read_text` for the options.

    Raises:
        SourceError: It cannot be read, or has no rows.
    """
    if path.suffix.lower() in ARROW_SUFFIXES:
        return read_arrow(path)
    return read_json_lines(path) if path.suffix == ".jsonl" else read_text(path, delimiter, header)
