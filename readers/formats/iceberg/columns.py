"""Matching of an Iceberg table's columns to those of its files: the table identifies a column by field id, not by name.

Files hold only names that Avro allows: writers store the column ``mask.png`` as ``mask_x2Epng``.
"""

from collections.abc import Sequence
from typing import Any

from readers.detect.registry import require
from readers.formats.parquet.table import TableFile
from readers.formats.tables.columns import one_line
from readers.sample import SourceError

_NUMBER = b"PARQUET:field_id"


def columns_of(
    root: str,
    metadata: Any,
    snapshot: int,
    files: Sequence[TableFile],
    columns: Sequence[str] | None,
) -> tuple[Sequence[str] | None, dict[str, str]]:
    """Find out which columns of a snapshot to read, and their names in the files.

    Args:
        root: Folder of the table.
        metadata: The table's pyiceberg.table.metadata.TableMetadata.
        snapshot: Id of the snapshot.
        files: Files of the snapshot.
        columns: Names of the columns that the caller wants, None for all.

    Returns:
        Names of the columns to read, without columns that the table has dropped, None for all; and a dict from a column's
        name in the files to its name in the table, for columns whose names differ.

    Raises:
        SourceError: A column was renamed or replaced since a file was written, has a default value for old files, or has
            different names in the files.
    """
    numbers = {field.name: field.field_id for field in _schema(metadata, snapshot).fields}
    for field in _schema(metadata, snapshot).fields:
        if getattr(field, "initial_default", None) is not None:
            raise SourceError(
                f"{root} has a value for its column {field.name!r} where files have none, which is not read: rewrite "
                "the table's data files"
            )
    known = {(field.name, field.field_id) for one in metadata.schemas for field in one.fields}
    is_same = known == set(numbers.items())
    if is_same and all(_in_files(name) == name for name in numbers):
        return columns, {}
    there: dict[str, str] = {}
    for file in files:
        for stored, name in _check(root, file, numbers, by_name=is_same).items():
            if there.setdefault(name, stored) != stored:
                raise SourceError(
                    f"{root} calls the column {name!r} {there[name]!r} in some files and {stored!r} in "
                    f"{file.location.name}: rewrite the table's data files"
                )
    wanted = [name for name in numbers if name in there] if columns is None else columns
    names = {stored: name for name, stored in there.items() if stored != name}
    return columns if is_same else wanted, names


def _in_files(name: str) -> str:
    """Return the name under which Iceberg writers store a column in files."""
    made = require("pyiceberg.schema", extra="iceberg").make_compatible_name(name)
    return str(made)


def _schema(metadata: Any, snapshot: int) -> Any:
    if snapshot == metadata.current_snapshot_id:
        return metadata.schema()
    [wanted] = [one for one in metadata.snapshots if one.snapshot_id == snapshot]
    found = [one for one in metadata.schemas if one.schema_id == wanted.schema_id]
    return found[0] if found else metadata.schema()


def _check(root: str, file: TableFile, numbers: dict[str, int], *, by_name: bool) -> dict[str, str]:
    """Return a dict from the name of each column in a file to its name in the table.

    Args:
        root: Folder of the table, for errors.
        file: The file.
        numbers: Field id of each column of the table, by name.
        by_name: Whether a column that has no field id in the file is matched by its name.

    Raises:
        SourceError: The file cannot be read, or a column was renamed or replaced since it was written.
    """
    parquet = require("pyarrow.parquet", extra="iceberg")
    try:
        schema = parquet.read_schema(file.location.text)
    except (OSError, ValueError) as error:
        raise SourceError(f"{file.location.shown} cannot be read: {one_line(error)}") from None
    names = {number: name for name, number in numbers.items()}
    found = {}
    for field in schema:
        number = int((field.metadata or {}).get(_NUMBER, -1))
        now = names.get(number)
        if field.name not in (now or field.name, _in_files(now or field.name)):
            raise SourceError(
                f"{root} calls the column {field.name!r} of {file.location.name} {now!r} since: rewrite the table's data "
                "files"
            )
        found[field.name] = now or field.name
        if by_name and number < 0:
            continue
        if field.name in numbers and number != numbers[field.name]:
            raise SourceError(
                f"{root} has dropped the column {field.name!r} of {file.location.name} and added another one of this "
                "name: rewrite the table's data files"
            )
    return found
