"""Tar shards in the convention of WebDataset."""

from readers.formats.tar.dataset import TarDataset

__all__ = ["TarDataset"]
