"""Columns of Iceberg tables, which are known by numbers: where names tell the same."""

from collections.abc import Sequence
from typing import Any

from readers.formats.parquet.table import TableFile
from readers.formats.registry import require
from readers.formats.tables.columns import one_line
from readers.sample import SourceError

_NUMBER = b"PARQUET:field_id"


def columns_of(
    root: str,
    metadata: Any,
    snapshot: int,
    files: Sequence[TableFile],
    columns: Sequence[str] | None,
) -> Sequence[str] | None:
    """Return the columns to read: those that the caller wants, without those that the table has dropped.

    Args:
        root: Folder of the table.
        metadata: A pyiceberg.table.metadata.TableMetadata.
        snapshot: Number of the snapshot.
        files: Its files.
        columns: As the caller gave them.

    Raises:
        SourceError: A file has a column under another name than the table.
    """
    numbers = {field.name: field.field_id for field in _schema(metadata, snapshot).fields}
    for field in _schema(metadata, snapshot).fields:
        if getattr(field, "initial_default", None) is not None:
            raise SourceError(
                f"{root} has a value for its column {field.name!r} where files have none, which is not read: rewrite "
                "the table's data files"
            )
    known = {(field.name, field.field_id) for one in metadata.schemas for field in one.fields}
    if known == set(numbers.items()):
        return columns
    there = {name for file in files for name in _check(root, file, numbers)}
    return [name for name in numbers if name in there] if columns is None else columns


def _schema(metadata: Any, snapshot: int) -> Any:
    if snapshot == metadata.current_snapshot_id:
        return metadata.schema()
    [wanted] = [one for one in metadata.snapshots if one.snapshot_id == snapshot]
    found = [one for one in metadata.schemas if one.schema_id == wanted.schema_id]
    return found[0] if found else metadata.schema()


def _check(root: str, file: TableFile, numbers: dict[str, int]) -> list[str]:
    """Return the columns of a file, after a look at whether they are called as in the table."""
    parquet = require("pyarrow.parquet", extra="iceberg")
    try:
        schema = parquet.read_schema(file.location.text)
    except (OSError, ValueError) as error:
        raise SourceError(f"{file.location.shown} cannot be read: {one_line(error)}") from None
    names = {number: name for name, number in numbers.items()}
    for field in schema:
        number = int((field.metadata or {}).get(_NUMBER, -1))
        now = names.get(number)
        if (now or field.name) != field.name:
            raise SourceError(
                f"{root} calls the column {field.name!r} of {file.location.name} {now!r} since: rewrite the table's data "
                "files"
            )
        if field.name in numbers and number != numbers[field.name]:
            raise SourceError(
                f"{root} has dropped the column {field.name!r} of {file.location.name} and added another one of this "
                "name: rewrite the table's data files"
            )
    return [str(name) for name in schema.names]
