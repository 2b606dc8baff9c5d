"""Iceberg tables: the Parquet files of one snapshot."""

from collections.abc import Sequence
from dataclasses import replace

from readers.formats.columns import ColumnOptions
from readers.formats.iceberg.snapshots import read_snapshot
from readers.formats.parquet.table import TableDataset
from readers.sample import PathLike


class IcebergDataset(TableDataset):
    """Rows of an Iceberg table at one snapshot.

    pyiceberg resolves the snapshot when the table is opened, without a catalog; the rows are then read like those of
    Parquet files (see `readers.formats.parquet.dataset.ParquetDataset`). The table may have been moved as a whole:
    paths are taken from its location on. Rows that position delete files take out are left out; deletion vectors and
    equality deletes are refused by name. Columns are called as in the table, where writers change names for its files
    (``mask.png``). Without a catalog the newest metadata is the one of the highest number. The
    order is that of the files' names.

    Args:
        source: The folder that holds ``metadata``, or a ``.metadata.json`` in it, such as a catalog's
            ``table.metadata_location``.
        snapshot: Number of the snapshot; None is the current one.
        image: Column of the image; None looks for the usual names, then for the only column of bytes.
        label: Column of the class number; None looks for the usual names.
        key: Column that names the samples; None looks for the usual names, then counts rows.
        columns: Which columns become fields; None for all.
        decoded_bytes: As for `ParquetDataset`.

    Raises:
        SourceError: It is no Iceberg table, has no such snapshot, deletes rows in a way that is not read, renamed a
            column since a file was written, or as for `ParquetDataset`.
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
