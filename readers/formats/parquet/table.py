"""Base of Delta and Iceberg datasets: Parquet files, some of whose rows may be deleted."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.datasets.dataset import Subset
from readers.datasets.fetched import FetchedDataset
from readers.datasets.selection import Selection, pick_kept
from readers.fingerprint import fingerprint_of
from readers.formats.columns import ColumnOptions
from readers.formats.parquet.dataset import ParquetDataset
from readers.formats.parquet.files import Location
from readers.sample import SourceError


@dataclass(frozen=True, eq=False)
class TableFile:
    """One file of a table's version.

    Attributes:
        location: Location of the file, with the values of partition columns.
        num_rows: Number of rows in the file, including deleted ones, as the table states it; None if it does not.
        keeps: Which rows are not deleted, bool [at most num_rows]; rows beyond its length are valid. None if no row is deleted.
    """

    location: Location
    num_rows: int | None = None
    keeps: NDArray[np.bool_] | None = None


class RenamedParquet(ParquetDataset):
    """Parquet files in which some columns have other names than in the table.

    Args:
        files: Locations of the files.
        names: Dict from a column's name in the files to its name in the table.
        options: Options of `ParquetDataset`, in which columns have their names in the files.
    """

    def __init__(
        self, files: Sequence[Location], *, names: Mapping[str, str], **options: Any
    ) -> None:
        super().__init__(files, **options)
        self._layout = replace(self._layout, names=dict(names))

    def __reduce__(self) -> tuple[Any, ...]:
        reopen, files = super().__reduce__()
        return partial(reopen, names=self._layout.names), files

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits, a hash of the fingerprint of `ParquetDataset` and the names."""
        return fingerprint_of(f"{super().fingerprint} {sorted(self._layout.names.items())}")

    def has_column(self, name: str) -> bool:
        """Return whether a column with this name in the table is read."""
        return name in {self._layout.names.get(column, column) for column in self._layout.columns}


class TableDataset(Subset):
    """Base class of the rows of a table at one version, stored in Parquet files.

    The files are fixed when the dataset is opened: later writes to the table change nothing. If a file is deleted later
    (by a vacuum), its samples become BadSamples.

    Attributes:
        version: Version number, or id of the snapshot.
    """

    _kind, _number_is = "", "version"

    def __init__(
        self,
        root: str,
        version: int,
        files: Sequence[TableFile],
        options: ColumnOptions,
        decoded_bytes: int,
        names: Mapping[str, str] | None = None,
    ) -> None:
        if not files:
            raise SourceError(f"{root} holds no rows at {self._number_is} {version}: open another")
        gone = [file.location.name for file in files if not Path(file.location.text).is_file()]
        if gone:
            raise SourceError(
                f"{root} lacks {gone[0]} of its {self._number_is} {version}: open a newer one where files of old ones "
                "were cleaned up (vacuum), else copy the table again"
            )
        self.version = version
        locations = [file.location for file in files]
        open_files = partial(RenamedParquet, names=names) if names else ParquetDataset
        stored = asdict(_names_in_files(options, names or {}))
        self._all = open_files(locations, **stored, decoded_bytes=decoded_bytes)
        super().__init__(self._all, _pick_valid(root, self._all, files))
        self.unlabelled = self._of_whole()

    def __repr__(self) -> str:
        """Show the sample count, the classes and the version."""
        return f"{FetchedDataset.__repr__(self)[:-1]}, {self._number_is} {self.version})"

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits, a hash of the valid files and rows.

        The version number is not hashed, since a commit that changes no rows leaves the samples unchanged.
        """
        return fingerprint_of(f"{self._kind} 1 {self._all.fingerprint} {self._picked.identity}")

    @property
    def remarks(self) -> tuple[str, ...]:
        return self._all.remarks


def _names_in_files(options: ColumnOptions, names: Mapping[str, str]) -> ColumnOptions:
    """Return the options with column names of the table replaced by those in the files.

    Args:
        options: The columns that the caller names.
        names: Dict from a column's name in the files to its name in the table.
    """
    stored = {name: column for column, name in names.items()}
    image, label, key = (
        stored.get(name or "", name) for name in (options.image, options.label, options.key)
    )
    columns = options.columns and [stored.get(name, name) for name in options.columns]
    return ColumnOptions(image, label, key, columns)


def inside(root: str, path: str) -> str:
    """Check that a table's file lies in the table's folder, and return its relative path.

    Args:
        root: Folder of the table, for the error.
        path: Path of the file, relative to the folder.

    Raises:
        SourceError: The path leads out of the folder.
    """
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or "://" in path or ".." in parts:
        raise SourceError(
            f"{root} names the file {path!r}, which does not lie in its folder: copy the table with its files"
        )
    return path


def partition_text(value: Any) -> str | None:
    """Return the value of a partition column as text, in the form that partition folders have; None stays None."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def _pick_valid(root: str, whole: ParquetDataset, files: Sequence[TableFile]) -> Selection:
    starts = whole.file_starts
    valid_rows = []
    for number, file in enumerate(files):
        num_rows = int(starts[number + 1] - starts[number])
        keeps = np.ones(num_rows, bool)
        given = keeps[:0] if file.keeps is None else file.keeps
        if file.num_rows not in (None, num_rows) or len(given) > num_rows:
            raise SourceError(
                f"{file.location.name} of {root} holds {num_rows} rows, and the table tells of "
                f"{max(file.num_rows or 0, len(given))}: it was replaced, write the table again"
            )
        keeps[: len(given)] = given
        valid_rows.append(keeps)
    valid = np.concatenate(valid_rows)
    return pick_kept(valid, f"all {len(valid)} rows of {root} are deleted: open another version")
