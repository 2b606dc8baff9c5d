"""Lance datasets, read by their own library at one version."""

from readers.formats.lance.dataset import LanceDataset

__all__ = ["LanceDataset"]
