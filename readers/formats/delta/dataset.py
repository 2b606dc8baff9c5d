"""Datasets of Delta tables: deltalake finds the files and rows of a version, which are read as Parquet files.

Protocol: https://github.com/delta-io/delta/blob/master/PROTOCOL.md
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from readers.detect.registry import require
from readers.formats.columns import ColumnOptions
from readers.formats.parquet.files import Location
from readers.formats.parquet.table import TableDataset, TableFile, inside, partition_text
from readers.formats.tables.columns import one_line
from readers.sample import PathLike, SourceError

_MAPPING = "delta.columnMapping.mode"
# Table features that are handled here, or that do not change how the rows of a file are read.
_READ = {
    *("deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "columnMapping"),
    *("typeWidening", "typeWidening-preview", "variantType", "variantType-preview"),
    *("variantShredding", "variantShredding-preview", "domainMetadata", "inCommitTimestamp"),
}


def read_version(root: str, version: int | None) -> tuple[int, list[TableFile]]:
    """Resolve a version of a Delta table; return its number, and its files sorted by name.

    Args:
        root: Folder of the table.
        version: Version number; None for the newest version.

    Raises:
        SourceError: The folder is no Delta table, or the table has no such version or needs an unsupported feature.
    """
    table = _open(root, version)
    _refuse_features(root, table)
    actions = require("pyarrow", extra="delta").table(table.get_add_actions(flatten=True))
    valid = _valid_rows(root, table)
    partitions = list(table.metadata().partition_columns)
    files: list[TableFile] = []
    for action in sorted(actions.to_pylist(), key=lambda action: str(action["path"])):
        name = inside(root, unquote(action["path"]))
        if files and files[-1].location.name == name:
            raise SourceError(
                f"the log of {root} lists {name} twice at version {table.version()}: write the table again"
            )
        values = {one: partition_text(action.get(f"partition.{one}")) for one in partitions}
        location = Location(f"{root}/{name}", name, values)
        files.append(TableFile(location, action.get("num_records"), valid.pop(name, None)))
    if valid:
        raise SourceError(
            f"{root} deletes rows of {next(iter(valid))}, which is no file of its version {table.version()}: "
            "write the table again (OPTIMIZE)"
        )
    return int(table.version()), files


def _open(root: str, version: int | None) -> Any:
    deltalake = require("deltalake", extra="delta")
    if not (Path(root) / "_delta_log").is_dir():
        raise SourceError(f"{root} is no Delta table: give the folder that holds _delta_log/")
    if version is not None and (isinstance(version, bool) or not isinstance(version, int)):
        raise SourceError(f"version={version!r} is no number: give that of a version, such as 3")
    uri = Path(root).as_uri()  # a path is read as if it were percent-encoded
    try:
        newest = deltalake.DeltaTable(uri)
    except Exception as error:  # noqa: BLE001, deltalake has errors of several kinds
        raise SourceError(f"{root} cannot be opened: {one_line(error)}") from None
    if version is None:
        return newest
    if not 0 <= version <= newest.version():
        raise SourceError(
            f"{root} has no version {version}: the newest is version {newest.version()}"
        )
    try:
        return deltalake.DeltaTable(uri, version=version)
    except Exception as error:  # noqa: BLE001
        raise SourceError(
            f"version {version} of {root} cannot be opened, its log may have been cleaned up ({one_line(error)}): "
            f"open a later one, up to {newest.version()}"
        ) from None


def _refuse_features(root: str, table: Any) -> None:
    mode = table.metadata().configuration.get(_MAPPING, "none")
    if mode != "none":
        raise SourceError(
            f"{root} maps its columns to other names in its files ({_MAPPING}={mode}), which is not read: write the "
            "table again without it"
        )
    unknown = sorted({*(table.protocol().reader_features or ())} - _READ)
    if unknown:
        raise SourceError(
            f"{root} needs the feature {unknown[0]!r}, which is not read: write the table again without it"
        )


def _valid_rows(root: str, table: Any) -> dict[str, NDArray[np.bool_]]:
    """Return for each file with a deletion vector, by name, which rows are not deleted, bool [rows]."""
    pa = require("pyarrow", extra="delta")
    try:
        vectors = pa.table(table.deletion_vectors())
    except Exception as error:  # noqa: BLE001
        raise SourceError(
            f"the deletion vectors of {root} cannot be read ({one_line(error)}): copy the table again"
        ) from None
    found = {}
    for path, keeps in zip(
        vectors["filepath"].to_pylist(), vectors["selection_vector"], strict=True
    ):
        name = unquote(path).removeprefix(unquote(table.table_uri))
        found[name] = keeps.values.to_numpy(zero_copy_only=False)
    return found


class DeltaDataset(TableDataset):
    """Rows of a Delta table at one version.

    deltalake resolves the version when the table is opened; the rows are then read like those of Parquet files (see
    `readers.formats.parquet.dataset.ParquetDataset`). Removed files and rows that a deletion vector deletes are left
    out. Partition columns, whose values are in the log instead of the files, become fields too. Samples follow the
    order of the files' names.

    Args:
        source: Path of the folder that holds ``_delta_log``.
        version: Version number; None for the newest version.
        image: Column of the image; if None, the first usual name that exists, or else the only column of bytes.
        label: Column of the class number, which may be a partition column; if None, the first usual name that exists.
        key: Column of the keys; if None, the first usual name that exists, or else the row's index.
        columns: Names of the columns that become fields; None for all.
        decoded_bytes: Maximum size in bytes of the decoded row groups that stay in memory.

    Raises:
        SourceError: The folder is no Delta table; the table has no such version, or needs an unsupported feature such as
            column mapping; or `ParquetDataset` would raise it for the files.
    """

    _kind = "delta"

    def __init__(
        self,
        source: PathLike,
        *,
        version: int | None = None,
        image: str | None = None,
        label: str | None = None,
        key: str | None = None,
        columns: Sequence[str] | None = None,
        decoded_bytes: int = 512 << 20,
    ) -> None:
        root = str(Path(os.fspath(source)).absolute())
        number, files = read_version(root, version)
        options = ColumnOptions(image, label, key, columns)
        super().__init__(root, number, files, options, decoded_bytes)
