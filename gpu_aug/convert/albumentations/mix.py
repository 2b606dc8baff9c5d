"""Mixing from Albumentations."""

from gpu_aug.convert.registry import ALBUMENTATIONS, refuses

refuses(
    ALBUMENTATIONS,
    "it takes the other images out of metadata that the caller puts beside each image, and a recipe "
    "takes them out of the batch",
    "Mosaic",
    nearest="gpu_aug.Mosaic(center_range=(0.3, 0.7)), on images of one size",
)
