"""Decode, crop and resize baseline JPEGs on a GPU, bit for bit like the CPU decoder."""
