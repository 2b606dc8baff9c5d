"""Former addresses of modules that moved to `bench.compare` and `bench.baselines`."""
