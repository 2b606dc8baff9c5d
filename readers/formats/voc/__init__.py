"""Pascal VOC's annotations and masks, in its own folders or next to the pictures."""
