"""Describe and examine this machine, manage its cache folder, and compile functions ahead."""
