"""Common parts of Pascal VOC, YOLO and LabelMe, the formats with one annotation file per picture."""
