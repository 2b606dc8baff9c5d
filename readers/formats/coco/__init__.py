"""COCO's annotations and the images beside them."""

from readers.formats.coco.dataset import CocoDataset

__all__ = ["CocoDataset"]
