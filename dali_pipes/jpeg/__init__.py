"""Our decoder for baseline JPEGs: compiled at the first call, and bit for bit like libjpeg-turbo."""

from dali_pipes.jpeg.status import REASONS as REASONS

__all__ = ["REASONS"]
