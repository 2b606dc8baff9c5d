"""Parquet files, and single values out of their pages."""

from readers.parquet.dataset import ParquetDataset

__all__ = ["ParquetDataset"]
