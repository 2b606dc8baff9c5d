"""The report of visits to machines with a GPU: docs/gpu.md and its pictures, out of their JSON results."""
