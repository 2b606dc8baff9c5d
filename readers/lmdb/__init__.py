"""LMDB environments, read without the library of that name."""

from readers.lmdb.dataset import LmdbDataset

__all__ = ["LmdbDataset"]
