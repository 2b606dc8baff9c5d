"""Delta tables: the Parquet files of one version."""

import os
from collections.abc import Sequence
from pathlib import Path

from readers.formats.delta.log import read_version
from readers.formats.parquet.table import TableDataset
from readers.sample import PathLike


class DeltaDataset(TableDataset):
    """Rows of a Delta table at one version.

    deltalake resolves the version when the table is opened; the rows are then read like those of Parquet files (see
    `readers.formats.parquet.dataset.ParquetDataset`). Files that were removed are never read, and rows that a
    deletion vector takes out are left out. The values of partition columns, which are not in the files, become
    fields. The order is that of the files' names.

    Args:
        source: The folder that holds ``_delta_log``.
        version: Number of the version; None is the newest.
        image: Column of the image; None looks for the usual names, then for the only column of bytes.
        label: Column of the class number, also of a partition; None looks for the usual names.
        key: Column that names the samples; None looks for the usual names, then counts rows.
        columns: Which columns become fields; None for all.
        decoded_bytes: As for `ParquetDataset`.

    Raises:
        SourceError: It is no Delta table, has no such version, needs a feature that is not read (column mapping), or
            as for `ParquetDataset`.
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
        options = {
            "image": image,
            "label": label,
            "key": key,
            "columns": columns,
            "decoded_bytes": decoded_bytes,
        }
        super().__init__(root, number, files, options)
