"""The commands ``gpu-aug bench ...``: each parses, calls and prints."""
