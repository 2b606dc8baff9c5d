"""The fused engine: our own kernels, which read each image once and write it once."""
