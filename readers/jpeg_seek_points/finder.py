"""Who finds the checkpoints of an image: a decoder, which is passed in, since nothing is decoded here."""

from typing import Protocol

from readers.jpeg_seek_points.layout import Kept
from readers.sample import Payload

NO_IMAGE = Kept(-1, 0, b"")
"""What is known of a sample that has no image, or that cannot be read; its digest is 0."""


class Finder(Protocol):
    """Finds checkpoints; it can be pickled. See `dali_pipes.jpeg.seek_points.FINDER`."""

    @property
    def version(self) -> int:
        """Goes up whenever rows or verdicts mean something else, or are found otherwise for the same bytes."""

    def digest(self, image: Payload) -> int:
        """64 bits over all bytes of an image."""

    def find(self, image: Payload) -> Kept:
        """Read all codes of an image, whatever it is; the status is 0 or more."""

    def reason(self, status: int) -> str:
        """Why images of this status have no checkpoints, for people; "" where they have some."""


def found_of(image: Payload | None, finder: Finder) -> tuple[int, Kept]:
    """Digest and checkpoints of an image; of a sample that has none what says so."""
    return (0, NO_IMAGE) if image is None else (finder.digest(image), finder.find(image))
