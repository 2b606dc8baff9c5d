"""Folders of images with folders of masks beside them."""

from readers.formats.mask_folder.dataset import MaskFolderDataset

__all__ = ["MaskFolderDataset"]
