"""This machine: its hardware and versions, its cache folder, and functions that are compiled ahead."""
