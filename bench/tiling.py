"""JPEGs with restart markers added, and an account of those that were left as they were."""

from collections import Counter
from dataclasses import dataclass, field

from rich.console import Console
from rich.filesize import decimal

from dali_pipes.jpeg.tiling.tile import Untiled, add_restarts
from readers.sample import Payload

_JPEG = b"\xff\xd8\xff"


def is_jpeg(data: Payload) -> bool:
    """Whether bytes begin like a JPEG, whatever the file is called."""
    return data[: len(_JPEG)] == _JPEG


def tile(data: Payload) -> tuple[Payload, str]:
    """Add restart markers to a JPEG without changing a pixel.

    Returns:
        The tiled bytes and "", or the given bytes and the reason.
    """
    try:
        return add_restarts(data), ""
    except Untiled as verdict:
        return data, verdict.reason


@dataclass
class Tally:
    """What became of the JPEGs.

    Attributes:
        tiled: How many have restart markers now.
        left: How many were left as they were, by reason.
        before_bytes: Size of all files, the others among them.
        after_bytes: Likewise, as they were written.
    """

    tiled: int = 0
    left: Counter[str] = field(default_factory=Counter)
    before_bytes: int = 0
    after_bytes: int = 0

    def count(self, reason: str) -> None:
        """Count one JPEG; an empty reason says that it was tiled."""
        if reason:
            self.left[reason] += 1
        else:
            self.tiled += 1

    def show(self, console: Console) -> None:
        """Print the numbers of JPEGs."""
        console.print(f"tiled: {self.tiled}; left as they were: {self.left.total()}")
        for reason, number in self.left.most_common():
            console.print(f"    {number}  {reason}", soft_wrap=True, highlight=False)


def show_sizes(before_bytes: int, after_bytes: int, console: Console) -> None:
    """Print how large the files were, and are now."""
    growth = (after_bytes - before_bytes) / max(before_bytes, 1)
    sizes = f"size: {decimal(before_bytes)} before, {decimal(after_bytes)} after ({growth:+.2%})"
    console.print(sizes, highlight=False)


def printable(name: str) -> str:
    """A name as text, also where it is no valid UTF-8."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
