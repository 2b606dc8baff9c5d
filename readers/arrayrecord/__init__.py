"""ArrayRecord files, read at random."""

from readers.arrayrecord.dataset import ArrayRecordDataset

__all__ = ["ArrayRecordDataset"]
