"""A finder whose seek points are the first bytes of a file, for tests of where they are stored."""

import hashlib
from dataclasses import dataclass, field

from readers.jpeg_seek_points.layout import PackedSeekPoints
from readers.sample import Payload


@dataclass
class FirstBytes:
    """See `readers.jpeg_seek_points.finder.Finder`.

    Attributes:
        looked_at: Digests of the images that were looked through, in that order.
    """

    version: int = 1
    looked_at: list[int] = field(default_factory=list)

    def digest(self, image: Payload) -> int:
        """Of all bytes."""
        return int.from_bytes(hashlib.blake2b(image, digest_size=8).digest(), "little")

    def find(self, image: Payload) -> PackedSeekPoints:
        """Some bytes of a JPEG."""
        self.looked_at.append(self.digest(image))
        is_jpeg = bytes(image[:2]) == b"\xff\xd8"
        return (
            PackedSeekPoints(0, 8, bytes(image[:100])) if is_jpeg else PackedSeekPoints(3, 8, b"")
        )

    def reason(self, status: int) -> str:
        """Why a file has none."""
        return "" if status == 0 else f"not a JPEG ({status})"
