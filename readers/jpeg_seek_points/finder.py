"""The interface of a function that finds seek points; callers pass one in, since this package does not decode images."""

from typing import Protocol

from readers.jpeg_seek_points.layout import PackedSeekPoints
from readers.sample import Payload

NO_IMAGE = PackedSeekPoints(-1, 0, b"")
"""Stored for a sample without an image, or with an image that cannot be read; the digest of such an entry is 0."""


class Finder(Protocol):
    """The interface of a decoder that finds seek points; picklable. `dali_pipes.jpeg.seek_points.FINDER` implements it."""

    @property
    def version(self) -> int:
        """Version of the results; it grows when an image may give other rows or another status than before."""

    def digest(self, image: Payload) -> int:
        """Return a 64-bit hash of all bytes of an image, as an integer."""

    def find(self, image: Payload) -> PackedSeekPoints:
        """Return the seek points of an image, with a status >= 0; `image` may be any bytes."""

    def reason(self, status: int) -> str:
        """Return the reason why images with a status have no seek points; "" if they may have some."""


def find_seek_points(image: Payload | None, finder: Finder) -> tuple[int, PackedSeekPoints]:
    """Return the digest and the seek points of an image; 0 and NO_IMAGE if `image` is None."""
    return (0, NO_IMAGE) if image is None else (finder.digest(image), finder.find(image))
