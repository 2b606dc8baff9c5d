"""The comparison of our pipelines with baselines: who takes part, the race, and the report."""
