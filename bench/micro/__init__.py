"""Small benchmarks of single parts: operations, decoders, the loader's overhead, and the growth of its cost."""
