"""The common parts of Pascal VOC, YOLO and LabelMe, which have a file of objects for each picture."""
