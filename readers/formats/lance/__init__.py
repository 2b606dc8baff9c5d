"""Lance datasets, read by their own library at one version."""
