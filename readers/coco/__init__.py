"""COCO's annotations and the images beside them."""

from readers.coco.dataset import CocoDataset

__all__ = ["CocoDataset"]
