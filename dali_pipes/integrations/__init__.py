"""Loaders in other frameworks: DALI-shaped iterators, Lightning, torchdata, JAX and CuPy."""
