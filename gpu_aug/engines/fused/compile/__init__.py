"""Compilation of a recipe and its draws into programs for the kernels of the fused engine."""
