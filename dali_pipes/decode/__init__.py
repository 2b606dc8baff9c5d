"""Decoders of images: OpenCV and Pillow, our own for JPEGs, NVIDIA DALI."""
