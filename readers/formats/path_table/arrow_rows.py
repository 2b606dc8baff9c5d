"""Rows of Parquet and Arrow files whose images are paths."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from readers.detect.registry import require
from readers.formats.path_table.table import Table
from readers.formats.tables.columns import one_line
from readers.formats.tables.layout import hugging_face_features
from readers.sample import SourceError
from readers.storage.unreadable import oserror_as_source_error
from readers.storage.whole_files import read_head

_ARROW_MAGIC = b"ARROW1"
ARROW_SUFFIXES = (".parquet", ".arrow")


def read_arrow(path: Path) -> Table:
    """Read all rows of a Parquet or Arrow file.

    Raises:
        SourceError: It cannot be read, or has no rows.
    """
    with _said(path):
        table = _read(path)
    if not table.num_rows:
        raise SourceError(f"{path} holds no rows: leave it out, or write it again")
    if len(set(table.schema.names)) < len(table.schema.names):
        raise SourceError(f"{path} has two columns of one name: rename one of them")
    features = hugging_face_features(table.schema)
    names = {
        column: tuple(map(str, told["names"]))
        for column, told in features.items()
        if isinstance(told.get("names"), list)
    }
    columns = {name: table.column(name).to_pylist() for name in table.schema.names}
    return Table(str(path), columns, None, names)


def schema_of(path: Path) -> Any:
    """Return the pyarrow.Schema of a file; of a Parquet file from its footer.

    Raises:
        SourceError: It cannot be read.
    """
    with _said(path):
        if path.suffix.lower() == ".parquet":
            return require("pyarrow.parquet", extra="arrow").read_schema(path)
        with _opened(path) as reader:
            return reader.schema


def text_columns(schema: Any) -> list[str]:
    """Names of the columns of text."""
    test = require("pyarrow", extra="arrow").types
    return [
        each.name
        for each in schema
        if test.is_string(each.type)
        or test.is_large_string(each.type)
        or test.is_string_view(each.type)
        or (test.is_dictionary(each.type) and test.is_string(each.type.value_type))
    ]


@contextmanager
def _said(path: Path) -> Iterator[None]:
    """Make a SourceError of what pyarrow raises."""
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
