"""Files that are samples of their own, or belong to one."""

from readers.formats.files.dataset import FileDataset, Sidecars, map_whole, read_whole

__all__ = ["FileDataset", "Sidecars", "map_whole", "read_whole"]
