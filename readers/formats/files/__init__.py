"""Files that are samples of their own, or belong to one."""

from readers.formats.files.dataset import FileDataset, Sidecars
from readers.formats.files.packed import Names

__all__ = ["FileDataset", "Names", "Sidecars"]
