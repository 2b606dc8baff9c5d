"""Connect loaders and datasets with other frameworks: DALI, Lightning, torchdata, JAX, CuPy, Ray and others."""
