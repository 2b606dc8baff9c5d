"""Folders of images, and folders of their masks."""
