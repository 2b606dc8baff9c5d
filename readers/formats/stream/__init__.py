"""Tars that can only be read forward."""

from readers.formats.stream.tar import TarStream

__all__ = ["TarStream"]
