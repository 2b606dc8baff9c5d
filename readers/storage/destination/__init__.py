"""Where prepared data is written: folders and object stores, each file whole or not at all."""

from readers.storage.destination.destination import Destination, open_destination
from readers.storage.destination.indexes import create_indexed
from readers.storage.destination.local import whole

__all__ = ["Destination", "create_indexed", "open_destination", "whole"]
