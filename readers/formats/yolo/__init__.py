"""Datasets of Ultralytics YOLO: boxes, polygons, poses and semantic masks."""
