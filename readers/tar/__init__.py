"""Tar shards in the convention of WebDataset."""

from readers.tar.dataset import TarDataset

__all__ = ["TarDataset"]
