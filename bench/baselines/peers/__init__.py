"""Other people's loaders. Each has a folder with what it installs and a pipeline as its users write it.

Each runs in a virtual environment of its own under ``.peers/``, in a process of its own, and answers line
by line, so that its turns can stand between ours.
"""
