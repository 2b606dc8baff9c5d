"""This machine: what it has, its cache folder, and functions that are compiled ahead."""
