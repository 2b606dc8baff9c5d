"""Other people's loaders. Each has a folder with the packages it installs, and a pipeline as its users write it.

Each runs in a virtual environment of its own under ``.peers/`` unless its package is here already.
"""
