"""Files that are samples of their own, or belong to one."""

from readers.files.dataset import FileDataset, Sidecars, open_regular, read_whole

__all__ = ["FileDataset", "Sidecars", "open_regular", "read_whole"]
