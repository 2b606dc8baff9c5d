"""Datasets: the base classes, selections, mixtures, and data that a program brings."""
