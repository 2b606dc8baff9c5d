"""Adding restart markers to JPEGs while they are copied, and counts of those left unchanged."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from readers.sample import Payload

TileJpeg = Callable[[Payload], tuple[Payload, str]]
"""Returns a JPEG with restart markers and "", or the same bytes and the reason why it got none; such as
`dali_pipes.jpeg.tiling.add_restarts.tile_jpeg`."""

_JPEG = b"\xff\xd8\xff"


def is_jpeg(data: Payload) -> bool:
    """Whether bytes begin like a JPEG, whatever the file is called."""
    return data[: len(_JPEG)] == _JPEG


@dataclass
class JpegCounts:
    """Numbers of tiled and untiled JPEGs.

    Attributes:
        tiled: Number of JPEGs that now have restart markers.
        left: Number of unchanged JPEGs, by reason.
    """

    tiled: int = 0
    left: Counter[str] = field(default_factory=Counter)

    def count(self, reason: str) -> None:
        """Count one JPEG; an empty reason says that it was tiled."""
        if reason:
            self.left[reason] += 1
        else:
            self.tiled += 1
