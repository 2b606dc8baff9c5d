"""The files and valid rows of an Iceberg table's snapshot, found in its metadata by pyiceberg.

The metadata holds complete URLs. They are resolved relative to the table's folder, so that a table can be copied, and cannot
name a file outside of its folder.

Specification: https://iceberg.apache.org/spec/
"""

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from readers.detect.registry import require
from readers.formats.iceberg.columns import columns_of
from readers.formats.parquet.files import Location
from readers.formats.parquet.table import TableFile, inside, partition_text
from readers.formats.tables.columns import one_line
from readers.sample import PathLike, SourceError
from readers.storage.limits import check_bytes
from readers.storage.whole_files import read_text

_METADATA = re.compile(r"v?([0-9]+)(?:-[^.]*)?\.metadata\.json")
_HINT = "version-hint.text"
_REWRITE = (
    "rewrite the table's data files (rewrite_data_files in Spark), which takes deleted rows out"
)


class MovedFiles:
    """A pyiceberg FileIO that reads files in the table's present folder instead of its original location.

    Args:
        root: Present folder of the table.
        location: URL or path of the folder to which the table was written.
    """

    def __init__(self, root: str, location: str) -> None:
        self._root, self._location = root, location.rstrip("/")
        self.properties: dict[str, str] = {}

    def name_of(self, url: str) -> str:
        """Return the name of a file relative to the table's folder.

        Args:
            url: URL or path of the file in the metadata.

        Raises:
            SourceError: The file lies outside of the table's location.
        """
        if not url.startswith(f"{self._location}/"):
            raise SourceError(
                f"{self._root} names the file {url!r}, which does not lie below its location {self._location}: rewrite "
                "the table in one place"
            )
        return inside(self._root, url.removeprefix(f"{self._location}/"))

    def path_of(self, url: str) -> str:
        """Return the present path of a file that the metadata names by URL; see `name_of`."""
        return f"{self._root}/{self.name_of(url)}"

    def new_input(self, location: str) -> "MovedFile":
        """Return a reader of the file with this URL, as pyiceberg.io.FileIO requires."""
        return MovedFile(self.path_of(location), location)

    def new_output(self, location: str) -> Any:
        """Raise a PermissionError: tables are never written to."""
        raise PermissionError(location)

    def delete(self, location: Any) -> None:
        """Raise a PermissionError: files of tables are never deleted."""
        raise PermissionError(location)


class MovedFile:
    """A file of a table, as a pyiceberg InputFile."""

    def __init__(self, path: str, location: str) -> None:
        self._path, self.location = path, location

    def __len__(self) -> int:
        return os.path.getsize(self._path)  # noqa: PTH202

    def exists(self) -> bool:
        """Return whether the file exists."""
        return Path(self._path).is_file()

    def open(self, seekable: bool = True) -> BinaryIO:  # noqa: ARG002
        """Open the file for reading bytes."""
        return Path(self._path).open("rb")


def read_snapshot(
    source: PathLike, snapshot: int | None, columns: Sequence[str] | None
) -> tuple[str, int, list[TableFile], Sequence[str] | None, dict[str, str]]:
    """Resolve a snapshot of an Iceberg table to files and columns.

    Args:
        source: Path of the table's folder, or of a metadata file in it.
        snapshot: Id of the snapshot; None for the current one.
        columns: Names of the columns that the caller wants, None for all.

    Returns:
        (folder of the table, id of the snapshot, files sorted by name, names of the columns to read or None for all, dict from
        a column's name in the files to its name in the table for those that differ).

    Raises:
        SourceError: The source is no Iceberg table, or the table has no such snapshot or needs an unsupported feature.
    """
    given = Path(os.fspath(source)).absolute()
    file = given if given.name.endswith(".metadata.json") else _newest_metadata(given)
    root = str(file.parent.parent)
    table = _open(root, file)
    number = _choose(root, table, snapshot)
    moved: MovedFiles = table.io
    try:
        tasks = list(table.scan(snapshot_id=number).plan_files())
    except SourceError:
        raise
    except Exception as error:  # noqa: BLE001, pyiceberg has errors of many kinds
        reason = one_line(error)
        if "equality deletes" in reason:
            reason = "it deletes rows by their values (equality deletes), which is not read"
        raise SourceError(
            f"snapshot {number} of {root} cannot be read: {reason}; {_REWRITE}"
        ) from None
    files = [_file_of(root, table, task, moved) for task in tasks]
    files.sort(key=lambda file: file.location.name)
    columns, names = columns_of(root, table.metadata, number, files, columns)
    return root, number, _as_stored(files, names), columns, names


def _newest_metadata(root: Path) -> Path:
    folder = root / "metadata"
    found = {
        file: _METADATA.fullmatch(file.name) for file in sorted(folder.glob("*.metadata.json"))
    }
    numbers = {file: int(one[1]) for file, one in found.items() if one}
    if not numbers:
        raise SourceError(
            f"{root} is no Iceberg table: give the folder that holds metadata/, or a .metadata.json in it"
        )
    highest = max(numbers.values())
    if (folder / _HINT).is_file():
        text = (folder / _HINT).read_text(encoding="utf-8").strip()
        highest = int(text) if text.isdecimal() else highest
    newest = [file for file, one in numbers.items() if one == highest]
    if len(newest) != 1:
        told = ", ".join(file.name for file in newest) or f"number {highest} is not there"
        raise SourceError(
            f"{root} has no one newest metadata ({told}): give the file that the catalog names, "
            "table.metadata_location"
        )
    return newest[0]


def _open(root: str, file: Path) -> Any:
    require("pyarrow.parquet", extra="iceberg")
    tables = require("pyiceberg.table", extra="iceberg")
    parse = require("pyiceberg.table.metadata", extra="iceberg").TableMetadataUtil.parse_raw
    catalogs = require("pyiceberg.catalog.noop", extra="iceberg")
    try:
        metadata = parse(read_text(file, "metadata"))
    except SourceError:
        raise
    except Exception as error:  # noqa: BLE001
        raise SourceError(f"{file} is no metadata of an Iceberg table: {one_line(error)}") from None
    # Not StaticTable: it imports modules that the table's own properties name.
    return tables.Table(
        ("table",),
        metadata=metadata,
        metadata_location=str(file),
        io=MovedFiles(root, metadata.location),
        catalog=catalogs.NoopCatalog("none"),
    )


def _choose(root: str, table: Any, snapshot: int | None) -> int:
    there = {one.snapshot_id for one in table.metadata.snapshots}
    if snapshot is None:
        snapshot = table.metadata.current_snapshot_id
        if snapshot is None:
            raise SourceError(f"{root} holds no rows, it has no snapshot yet: write some")
    if snapshot not in there:
        newest = [one.snapshot_id for one in table.metadata.snapshots][-5:]
        raise SourceError(
            f"{root} has no snapshot {snapshot!r}: the latest are {', '.join(map(str, newest)) or 'none'}"
        )
    return int(snapshot)


def _file_of(root: str, table: Any, task: Any, moved: MovedFiles) -> TableFile:
    file = task.file
    name = moved.name_of(file.file_path)
    if file.file_format.name != "PARQUET":
        raise SourceError(f"{root} keeps {name} as {file.file_format.name}: only Parquet is read")
    spec = table.metadata.specs()[file.spec_id]
    schema = table.metadata.schema()
    values = {
        schema.find_column_name(field.source_id): partition_text(value)
        for field, value in zip(spec.fields, file.partition, strict=True)
        if str(field.transform) == "identity" and schema.find_column_name(field.source_id)
    }
    location = Location(f"{root}/{name}", name, values)
    keeps = _valid_rows(root, name, task, moved) if task.delete_files else None
    return TableFile(location, int(file.record_count), keeps)


def _as_stored(files: list[TableFile], names: dict[str, str]) -> list[TableFile]:
    """Return the files with their partition columns renamed to the names that columns have in the files."""
    stored = {name: column for column, name in names.items()}
    if not any(stored.keys() & file.location.partitions.keys() for file in files):
        return files
    found = []
    for file in files:
        values = {stored.get(name, name): value for name, value in file.location.partitions.items()}
        found.append(replace(file, location=replace(file.location, partitions=values)))
    return found


def _valid_rows(root: str, name: str, task: Any, moved: MovedFiles) -> NDArray[np.bool_]:
    """Return which rows of a file are not deleted, bool [rows], by its delete files with the columns file_path and pos."""
    parquet = require("pyarrow.parquet", extra="iceberg")
    keeps = np.ones(int(task.file.record_count), bool)
    for deletes in task.delete_files:
        if deletes.file_format.name != "PARQUET":
            raise SourceError(
                f"{root}: {deletes.record_count} of {len(keeps)} rows of {name} are deleted, by a file of the kind "
                f"{deletes.file_format.name}, which is not read: {_REWRITE}"
            )
        try:
            check_bytes(deletes.file_size_in_bytes, "a list of deleted rows")
            told = parquet.read_table(
                moved.path_of(deletes.file_path),
                columns=["pos"],
                filters=[("file_path", "=", task.file.file_path)],
                partitioning=None,
            )
            keeps[told["pos"].to_numpy()] = False
        except (OSError, ValueError, KeyError, IndexError) as error:
            raise SourceError(
                f"{root}: {moved.name_of(deletes.file_path)}, which deletes rows of {name}, cannot be read "
                f"({one_line(error)}): copy the table again"
            ) from None
    return keeps
