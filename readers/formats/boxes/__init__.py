"""What Pascal VOC, YOLO and LabelMe have in common: pictures, and beside each a file of its objects."""
