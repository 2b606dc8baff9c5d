"""Columns of Iceberg tables, which the table knows by number and the files by name.

Files have names that Avro allows: what writes them stores ``mask.png`` as ``mask_x2Epng``.
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
    """Return the columns to read, and the names of those that files call otherwise, by the files' names.

    The columns are those that the caller wants, without those that the table has dropped.

    Args:
        root: Folder of the table.
        metadata: A pyiceberg.table.metadata.TableMetadata.
        snapshot: Number of the snapshot.
        files: Its files.
        columns: As the caller gave them.

    Raises:
        SourceError: A file has a column under another name than the table, or files do not agree on it.
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
    """Return the name that writers of Iceberg give a column in files."""
    made = require("pyiceberg.schema", extra="iceberg").make_compatible_name(name)
    return str(made)


def _schema(metadata: Any, snapshot: int) -> Any:
    if snapshot == metadata.current_snapshot_id:
        return metadata.schema()
    [wanted] = [one for one in metadata.snapshots if one.snapshot_id == snapshot]
    found = [one for one in metadata.schemas if one.schema_id == wanted.schema_id]
    return found[0] if found else metadata.schema()


def _check(root: str, file: TableFile, numbers: dict[str, int], *, by_name: bool) -> dict[str, str]:
    """Return the table's names of the columns of a file by the file's, after a look at whether they are the same.

    With ``by_name``, columns without a number are those of their names.
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
