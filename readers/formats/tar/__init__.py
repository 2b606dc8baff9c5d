"""Tar shards in the WebDataset format."""

from readers.formats.tar.dataset import TarDataset

__all__ = ["TarDataset"]
