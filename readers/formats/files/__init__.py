"""Datasets of files that are samples of their own, with the files that belong to each."""

from readers.formats.files.dataset import FileDataset, Sidecars
from readers.formats.files.packed import Names

__all__ = ["FileDataset", "Names", "Sidecars"]
