"""ArrayRecord files, read at random."""

from readers.formats.arrayrecord.dataset import ArrayRecordDataset

__all__ = ["ArrayRecordDataset"]
