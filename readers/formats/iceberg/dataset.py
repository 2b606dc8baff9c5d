"""Datasets of Iceberg tables: the Parquet files of one snapshot."""

from collections.abc import Sequence
from dataclasses import replace

from readers.formats.columns import ColumnOptions
from readers.formats.iceberg.snapshots import read_snapshot
from readers.formats.parquet.table import TableDataset
from readers.sample import PathLike


class IcebergDataset(TableDataset):
    """Rows of an Iceberg table at one snapshot.

    pyiceberg resolves the snapshot when the table is opened, without a catalog; the rows are then read like those of
    Parquet files (see `readers.formats.parquet.dataset.ParquetDataset`). The table may have been moved as a
    whole: paths in its metadata are resolved relative to its folder. Rows deleted by position delete files are left out;
    deletion vectors and equality deletes are refused. Columns have their names in the table, even if writers change them in
    the files (``mask.png``). Without a catalog, the metadata file with the highest number is the newest. Samples follow
    the order of the files' names.

    Args:
        source: Path of the folder that holds ``metadata``, or of a ``.metadata.json`` file in ``metadata``, such as a
            catalog's ``table.metadata_location``.
        snapshot: Id of the snapshot; None for the current one.
        image: Column of the image; if None, the first usual name that exists, or else the only column of bytes.
        label: Column of the class number; if None, the first usual name that exists.
        key: Column of the keys; if None, the first usual name that exists, or else the row's index.
        columns: Names of the columns that become fields; None for all.
        decoded_bytes: Maximum size in bytes of the decoded row groups that stay in memory.

    Raises:
        SourceError: The source is no Iceberg table; the table has no such snapshot, deletes rows in an unsupported way, or
            renamed a column since a file was written; or `ParquetDataset` would raise it for the files.
    """

    _kind, _number_is = "iceberg", "snapshot"

    def __init__(
        self,
        source: PathLike,
        *,
        snapshot: int | None = None,
        image: str | None = None,
        label: str | None = None,
        key: str | None = None,
        columns: Sequence[str] | None = None,
        decoded_bytes: int = 512 << 20,
    ) -> None:
        options = ColumnOptions(image, label, key, columns)
        root, number, files, columns, names = read_snapshot(source, snapshot, options.columns)
        options = replace(options, columns=columns)
        super().__init__(root, number, files, options, decoded_bytes, names)
