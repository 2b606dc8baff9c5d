"""Folders of images with folders of masks beside them."""
