"""Reading of tables from Parquet and Arrow files, JSON lines and text."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from readers.detect.registry import require
from readers.formats.columns import require_unique, shorten
from readers.formats.path_table.table import Table
from readers.formats.path_table.text_rows import read_text_table
from readers.formats.tables.columns import one_line
from readers.formats.tables.layout import hugging_face_features, is_text
from readers.sample import SourceError
from readers.storage.unreadable import oserror_as_source_error
from readers.storage.whole_files import read_head, read_text

_ARROW_MAGIC = b"ARROW1"
ARROW_SUFFIXES = (".parquet", ".arrow")


def read_table(
    path: Path, delimiter: str | None = None, header: Sequence[str] | None = None
) -> Table:
    """Return all rows of a file, read by its ending as Parquet, Arrow, JSON lines or else text.

    See `read_text_table` for the options.

    Raises:
        SourceError: The file cannot be read, or has no rows.
    """
    if path.suffix.lower() in ARROW_SUFFIXES:
        return _read_arrow(path)
    return (
        read_json_lines(path)
        if path.suffix == ".jsonl"
        else read_text_table(path, delimiter, header)
    )


def _read_arrow(path: Path) -> Table:
    """Return all rows of a Parquet or Arrow file.

    Raises:
        SourceError: The file cannot be read, or has no rows.
    """
    with _errors_as_source_error(path):
        table = _read(path)
    if not table.num_rows:
        raise SourceError(f"{path} holds no rows: leave it out, or write it again")
    require_unique(table.schema.names, str(path))
    features = hugging_face_features(table.schema)
    names = {
        column: tuple(map(str, feature["names"]))
        for column, feature in features.items()
        if isinstance(feature.get("names"), list)
    }
    columns = {name: table.column(name).to_pylist() for name in table.schema.names}
    return Table(str(path), columns, None, names)


def schema_of(path: Path) -> Any:
    """Return the pyarrow.Schema of a Parquet or Arrow file.

    Raises:
        SourceError: The file cannot be read.
    """
    with _errors_as_source_error(path):
        if path.suffix.lower() == ".parquet":
            return require("pyarrow.parquet", extra="arrow").read_schema(path)
        with _opened(path) as reader:
            return reader.schema


def text_columns(schema: Any) -> list[str]:
    """Return the names of the columns that hold text.

    Args:
        schema: A pyarrow.Schema.
    """
    return [each.name for each in schema if is_text(each.type)]


@contextmanager
def _errors_as_source_error(path: Path) -> Iterator[None]:
    """Turn exceptions of pyarrow in the with block into a SourceError that names the file."""
    try:
        with oserror_as_source_error(str(path)):
            yield
    except (ValueError, NotImplementedError) as error:
        raise SourceError(f"{path} cannot be read as Parquet or Arrow: {one_line(error)}") from None


def _read(path: Path) -> Any:
    if path.suffix.lower() == ".parquet":
        return require("pyarrow.parquet", extra="arrow").read_table(path, partitioning=None)
    with _opened(path) as reader:
        return reader.read_all()


def _opened(path: Path) -> Any:
    pa = require("pyarrow", extra="arrow")
    ipc = require("pyarrow.ipc", extra="arrow")
    is_file = read_head(path, len(_ARROW_MAGIC)) == _ARROW_MAGIC
    source = pa.OSFile(str(path))
    return ipc.open_file(source) if is_file else ipc.open_stream(source)


def read_json_lines(path: Path) -> Table:
    """Return the rows of a file with one JSON object per line; a value that a line lacks is None.

    Raises:
        SourceError: The file cannot be read, has no rows, or a line is no JSON object.
    """
    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    texts = read_text(path, "JSON lines").split("\n")
    for number, text in enumerate(texts, start=1):
        if not text.strip():
            continue
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise SourceError(f"{path}, line {number} is no JSON: {error}") from None
        if not isinstance(row, dict):
            raise SourceError(f"{path}, line {number} is no JSON object but {shorten(row)}")
        rows.append(row)
        lines.append(number)
    if not rows:
        raise SourceError(f"{path} has no rows: write a JSON object for each image")
    names = dict.fromkeys(name for row in rows for name in row)
    return Table(str(path), {name: [row.get(name) for row in rows] for name in names}, lines)
