"""Loaders of other projects. Each has a folder with its list of packages, and a pipeline written like its users write it.

Each runs in its own virtual environment under ``.peers/``, unless its package is installed in this one.
"""
