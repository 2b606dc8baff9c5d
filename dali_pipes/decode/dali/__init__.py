"""Decode with NVIDIA DALI: build its graphs, feed them with batches, or use a pipeline that the user gives."""
