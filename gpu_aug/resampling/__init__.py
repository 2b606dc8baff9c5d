"""Cropping and resizing of images: rectangles, weights and sampling grids."""
