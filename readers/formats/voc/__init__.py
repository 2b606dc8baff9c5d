"""Pascal VOC's annotations and masks, in its own layout or beside the pictures."""
