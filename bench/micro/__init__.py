"""Measure single parts in small benchmarks: operations, decoders, the loader's overhead, and how its cost grows."""
