"""Lossless tiling of JPEGs, and cutting windows out of tiled ones without decoding them."""
