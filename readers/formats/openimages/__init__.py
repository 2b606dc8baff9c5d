"""OpenImages: boxes or labels of images in a CSV file, and the images beside it."""

from readers.formats.openimages.dataset import OpenImagesDataset

__all__ = ["OpenImagesDataset"]
