"""Inspection of a dataset: fields, images, videos, labels, and entries that cannot be read."""
