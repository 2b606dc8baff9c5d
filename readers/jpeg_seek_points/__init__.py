"""Stored seek points of JPEGs: places in the compressed data at which decoding can begin, so that crops decode faster."""
