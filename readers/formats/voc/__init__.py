"""Pascal VOC's annotations and masks, in its own folder layout or next to the pictures."""
