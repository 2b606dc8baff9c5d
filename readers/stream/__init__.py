"""Tars that can only be read forward."""

from readers.stream.tar import TarStream

__all__ = ["TarStream"]
