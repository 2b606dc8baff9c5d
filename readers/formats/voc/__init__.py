"""Pascal VOC's annotations and masks, in its own layout or beside the pictures."""

from readers.formats.voc.dataset import VocDataset

__all__ = ["VocDataset"]
