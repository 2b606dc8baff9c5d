"""The datasets of Ultralytics YOLO: boxes, polygons, poses and masks of classes."""
