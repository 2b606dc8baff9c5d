"""Delta tables: their log says which Parquet files and rows are valid."""

from readers.formats.delta.dataset import DeltaDataset

__all__ = ["DeltaDataset"]
