"""Write prepared data to folders and object stores; each file appears when it is complete."""

from readers.storage.destination.destination import Destination, open_destination, whole
from readers.storage.destination.indexes import create_indexed

__all__ = ["Destination", "create_indexed", "open_destination", "whole"]
