"""Peers: loaders of other projects, each in a folder with its list of packages, and a pipeline as its users write it.

Each runs in its own virtual environment under ``.peers/``, unless its package is installed in this one.
"""
