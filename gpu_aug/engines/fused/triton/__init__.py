"""Triton kernels that carry out programs on a GPU."""
