"""The metadata of an Iceberg table, read by pyiceberg: which files and rows make up a snapshot.

It holds whole URLs, which are taken from the table's location on. So a table can be copied, and no table names a file outside of
its folder.

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
    """A FileIO of pyiceberg that reads a table where it lies now.

    Args:
        root: Folder of the table.
        location: URL or path where it was written.
    """

    def __init__(self, root: str, location: str) -> None:
        self._root, self._location = root, location.rstrip("/")
        self.properties: dict[str, str] = {}

    def name_of(self, url: str) -> str:
        """Return the name of a file below the folder.

        Raises:
            SourceError: It lies outside.
        """
        if not url.startswith(f"{self._location}/"):
            raise SourceError(
                f"{self._root} names the file {url!r}, which does not lie below its location {self._location}: rewrite "
                "the table in one place"
            )
        return inside(self._root, url.removeprefix(f"{self._location}/"))

    def path_of(self, url: str) -> str:
        """Return the path of a file; see `name_of`."""
        return f"{self._root}/{self.name_of(url)}"

    def new_input(self, location: str) -> "MovedFile":
        """See pyiceberg.io.FileIO."""
        return MovedFile(self.path_of(location), location)

    def new_output(self, location: str) -> Any:
        """Refuse to write."""
        raise PermissionError(location)

    def delete(self, location: Any) -> None:
        """Refuse to delete."""
        raise PermissionError(location)


class MovedFile:
    """An InputFile of pyiceberg."""

    def __init__(self, path: str, location: str) -> None:
        self._path, self.location = path, location

    def __len__(self) -> int:
        return os.path.getsize(self._path)  # noqa: PTH202

    def exists(self) -> bool:
        """Return whether the file exists."""
        return Path(self._path).is_file()

    def open(self, seekable: bool = True) -> BinaryIO:  # noqa: ARG002
        """Open it."""
        return Path(self._path).open("rb")


def read_snapshot(
    source: PathLike, snapshot: int | None, columns: Sequence[str] | None
) -> tuple[str, int, list[TableFile], Sequence[str] | None, dict[str, str]]:
    """Return the folder of a table, the number of a snapshot, its files sorted by name, and the columns to read.

    Last come the names of columns that are called otherwise in the files, by those in the files.

    Args:
        source: The folder, or a metadata file in it.
        snapshot: Number of the snapshot; None is the current one.
        columns: Which columns the caller wants, None for all.

    Raises:
        SourceError: It is no table, has no such snapshot, or needs a feature that is not read.
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
    # Not by StaticTable, which imports what the table's own properties name.
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
    """Return the files with partition columns called as in them."""
    stored = {name: column for column, name in names.items()}
    if not any(stored.keys() & file.location.partitions.keys() for file in files):
        return files
    found = []
    for file in files:
        values = {stored.get(name, name): value for name, value in file.location.partitions.items()}
        found.append(replace(file, location=replace(file.location, partitions=values)))
    return found


def _valid_rows(root: str, name: str, task: Any, moved: MovedFiles) -> NDArray[np.bool_]:
    """Return the rows of a file that its delete files leave, bool [rows]; these files have the columns file_path and pos."""
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
