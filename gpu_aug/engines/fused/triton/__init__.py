"""Programs on a GPU: Triton kernels."""
