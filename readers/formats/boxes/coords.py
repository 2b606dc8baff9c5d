"""From where the corners of boxes count: from 1 with both ends inside, as Pascal VOC's, or from 0."""

from collections.abc import Sequence
from typing import Literal

Coords = Literal["one-based", "zero-based"]

_FIRST = {"one-based": 1, "zero-based": 0}


class Evidence:
    """What boxes show of where their coordinates count from.

    Attributes:
        zero: The first box that begins at 0, which is no place where counting begins at 1; "" for none.
        one: The first box that begins at 1; "" for none.
        edge: The first box that ends at the width or height of its picture; "" for none.
        any_box: Whether there was one.
    """

    def __init__(self) -> None:
        self.zero = self.one = self.edge = ""
        self.any_box = False

    def add(self, box: Sequence[float], size: tuple[int, int] | None, where: str) -> None:
        """Look at a box.

        Args:
            box: Left, top, right, bottom.
            size: Height and width of its picture as they are stated, None where they are not.
            where: Names the box.
        """
        self.any_box = True
        left, top, right, bottom = box
        if not self.zero and 0 <= min(left, top) < 1:
            self.zero = f"{where} begins at {min(left, top):g}"
        if not self.one and min(left, top) == 1:
            self.one = f"{where} begins at 1"
        if not self.edge and size and (right == size[1] or bottom == size[0]):
            self.edge = f"{where} ends at the {'width' if right == size[1] else 'height'}"


def choose_coords(found: Evidence, source: object, usual: Coords) -> tuple[Coords, str]:
    """Tell from where coordinates count, and what is to be said of it.

    A box that begins at 0 shows that they count from 0. Where none does, one that ends at the width or height of
    its picture shows that they count from 1, both ends included, as Pascal VOC's do; of a format that mostly counts from
    0, one must begin at 1 as well. Otherwise they are taken as is usual, and a remark says so.

    Args:
        found: What the boxes show.
        source: Names the data.
        usual: The convention of the format.

    Returns:
        The convention, and a sentence or "".
    """
    other: Coords = "zero-based" if usual == "one-based" else "one-based"
    options = f"say coords={usual!r} or {other!r}, whichever is right"
    shown: Coords | None = "zero-based" if found.zero else None
    if not found.zero and found.edge and (found.one or usual == "one-based"):
        shown = "one-based"
    if shown == usual or not found.any_box:
        return usual, ""
    if shown is None:
        meaning = ", as Pascal VOC defines them" if usual == "one-based" else ""
        return usual, (
            f"{source} is read with coordinates that count from {_FIRST[usual]}{meaning}, since no box shows it: {options}"
        )
    why = found.zero or f"{found.one} and {found.edge}"
    return shown, (
        f"{source} is read with coordinates that count from {_FIRST[shown]}, as {why}, while those of this format mostly "
        f"count from {_FIRST[usual]}: {options}"
    )
