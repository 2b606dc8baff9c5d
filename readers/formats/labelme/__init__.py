"""LabelMe's annotations: a JSON file of shapes for each picture."""

from readers.formats.labelme.dataset import LabelMeDataset

__all__ = ["LabelMeDataset"]
