"""Tars that are read from front to back."""

from readers.formats.stream.tar import TarStream

__all__ = ["TarStream"]
