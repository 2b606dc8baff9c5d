"""Lance datasets, read at one version by the package lance."""
