"""Parquet files, and single values out of their pages."""

from readers.formats.parquet.dataset import ParquetDataset

__all__ = ["ParquetDataset"]
