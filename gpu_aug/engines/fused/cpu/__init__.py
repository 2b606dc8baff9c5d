"""Kernels that carry out programs on the CPU: compiled loops over rows of pixels."""
