"""Streams of tars, which are read only forward."""

from readers.formats.stream.tar import TarStream

__all__ = ["TarStream"]
