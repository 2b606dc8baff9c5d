"""The interface of a decoder that finds seek points; it is passed in, since nothing is decoded in this package."""

from typing import Protocol

from readers.jpeg_seek_points.layout import PackedSeekPoints
from readers.sample import Payload

NO_IMAGE = PackedSeekPoints(-1, 0, b"")
"""Stored for a sample without an image, or with one that cannot be read; its digest is 0."""


class Finder(Protocol):
    """Finds seek points; it can be pickled. See `dali_pipes.jpeg.seek_points.FINDER`."""

    @property
    def version(self) -> int:
        """Version of the rows and statuses; it grows when the same image may give other ones."""

    def digest(self, image: Payload) -> int:
        """Return 64 bits over all bytes of an image."""

    def find(self, image: Payload) -> PackedSeekPoints:
        """Read all codes of an image, which may be any bytes; the status is 0 or more."""

    def reason(self, status: int) -> str:
        """Return why images of a status have no seek points; "" if they have some."""


def find_seek_points(image: Payload | None, finder: Finder) -> tuple[int, PackedSeekPoints]:
    """Return digest and seek points of an image; 0 and NO_IMAGE if there is none."""
    return (0, NO_IMAGE) if image is None else (finder.digest(image), finder.find(image))
