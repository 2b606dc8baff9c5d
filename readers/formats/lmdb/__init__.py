"""LMDB environments, read without the library of that name."""

from readers.formats.lmdb.dataset import LmdbDataset

__all__ = ["LmdbDataset"]
