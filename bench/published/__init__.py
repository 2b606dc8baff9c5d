"""Benchmarks that others published, rebuilt here with ours as a further contestant: one module per benchmark."""
