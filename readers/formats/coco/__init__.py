"""COCO's annotations in one JSON file, and their images."""
