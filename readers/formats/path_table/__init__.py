"""Datasets of tables (CSV, TSV, JSON lines, Parquet, Arrow) whose rows name image files."""

from readers.formats.path_table.dataset import PathTableDataset

__all__ = ["PathTableDataset"]
