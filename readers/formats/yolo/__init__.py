"""The datasets of Ultralytics YOLO: boxes, polygons, poses and masks of classes."""

from readers.formats.yolo.dataset import YoloDataset

__all__ = ["YoloDataset"]
