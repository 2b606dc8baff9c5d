"""The commands ``gpu-aug recipe ...``."""
