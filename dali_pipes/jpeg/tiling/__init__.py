"""Lossless tiling of JPEGs, and cutting crops out of tiled ones without decoding them."""
