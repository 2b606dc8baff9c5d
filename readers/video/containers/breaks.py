"""Where a container breaks, because something in the middle was overwritten or taken out."""

from typing import NamedTuple

_PIECE_BYTES = 1 << 20
MOST_JUNK_BYTES = 1024
"""Of anything but zeros, behind a file that does not say where it ends."""


class Break(NamedTuple):
    """A place from which on a container is not what it should be.

    Attributes:
        sound: What begins before this place of the file is whole.
        reason: What is wrong, and at which byte.
    """

    sound: int
    reason: str


def is_junk(view: memoryview) -> bool:
    """Whether what stands behind a file that does not say where it ends may be anything: a tag, or room for more."""
    return len(view) <= MOST_JUNK_BYTES or is_zero(view)


def is_zero(view: memoryview) -> bool:
    """Whether there is nothing but zeros."""
    pieces = (bytes(view[at : at + _PIECE_BYTES]) for at in range(0, len(view), _PIECE_BYTES))
    return all(piece.count(0) == len(piece) for piece in pieces)
