"""Datasets of images in one folder with their masks in another."""
