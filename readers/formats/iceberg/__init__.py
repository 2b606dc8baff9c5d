"""Iceberg tables: their metadata says which Parquet files are valid."""

from readers.formats.iceberg.dataset import IcebergDataset

__all__ = ["IcebergDataset"]
