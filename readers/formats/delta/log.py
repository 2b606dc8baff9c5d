"""The log of a Delta table, replayed by deltalake: which files and rows make up a version.

Protocol: https://github.com/delta-io/delta/blob/master/PROTOCOL.md
"""

from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from readers.formats.parquet.files import Location
from readers.formats.parquet.table import TableFile, inside, partition_text
from readers.formats.registry import require
from readers.sample import SourceError

_MAPPING = "delta.columnMapping.mode"
# Features that change nothing of how the rows of a file are read, and those that are seen to here.
_READ = {
    *("deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "columnMapping"),
    *("typeWidening", "typeWidening-preview", "variantType", "variantType-preview"),
    *("variantShredding", "variantShredding-preview", "domainMetadata", "inCommitTimestamp"),
}


def read_version(root: str, version: int | None) -> tuple[int, list[TableFile]]:
    """Return the number of a version, and its files sorted by name.

    Args:
        root: Folder of the table.
        version: Which one; None is the newest.

    Raises:
        SourceError: It is no table, has no such version, or needs what is not read.
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
        raise SourceError(f"{root} cannot be opened: {_one_line(error)}") from None
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
            f"version {version} of {root} cannot be opened, its log may have been cleaned up ({_one_line(error)}): "
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
    """For each file with a deletion vector, which of its rows are valid."""
    pa = require("pyarrow", extra="delta")
    try:
        told = pa.table(table.deletion_vectors())
    except Exception as error:  # noqa: BLE001
        raise SourceError(
            f"the deletion vectors of {root} cannot be read ({_one_line(error)}): copy the table again"
        ) from None
    found = {}
    for path, keeps in zip(told["filepath"].to_pylist(), told["selection_vector"], strict=True):
        name = unquote(path).removeprefix(unquote(table.table_uri))
        found[name] = keeps.values.to_numpy(zero_copy_only=False)
    return found


def _one_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:200].rstrip(". ") or type(error).__name__
