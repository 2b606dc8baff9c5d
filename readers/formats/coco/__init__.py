"""COCO's annotations and the images beside them."""
