"""Tables whose rows name image files: CSV, TSV, Parquet, Arrow."""

from readers.formats.path_table.dataset import PathTableDataset

__all__ = ["PathTableDataset"]
