"""Datasets in which each sample is one file, with the files that belong to it."""

from readers.formats.files.dataset import FileDataset, Sidecars
from readers.formats.files.packed import Names

__all__ = ["FileDataset", "Names", "Sidecars"]
