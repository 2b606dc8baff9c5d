"""Loaders in other frameworks, and their datasets in loaders: DALI, Lightning, torchdata, JAX, CuPy, Ray and others."""
