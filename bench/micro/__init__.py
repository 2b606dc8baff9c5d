"""Small benchmarks of single parts: operations, decoders, the loader's overhead, how its cost grows."""
