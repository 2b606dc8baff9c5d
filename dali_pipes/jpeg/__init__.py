"""Our CPU decoder for JPEGs: compiled on first use, with exactly libjpeg-turbo's pixels."""

from dali_pipes.jpeg.status import REASONS as REASONS

__all__ = ["REASONS"]
