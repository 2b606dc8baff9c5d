"""From where the corners of boxes count: from 1 with both ends inside, as Pascal VOC's, or from 0."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

Coords = Literal["one-based", "zero-based"]

_FIRST = {"one-based": 1, "zero-based": 0}


class Corners(NamedTuple):
    """A box as it is written.

    Attributes:
        box: Left, top, right, bottom.
        size: Height and width of its picture as they are stated, None where they are not.
        where: Names the box.
    """

    box: Sequence[float]
    size: tuple[int, int] | None
    where: str


def choose_coords(found: Sequence[Corners], source: object, usual: Coords) -> tuple[Coords, str]:
    """Tell from where coordinates count, and what is to be said of it.

    A box that begins at 0 shows that they count from 0. Where none does, one that ends at the width or height of
    its picture shows that they count from 1, both ends included, as Pascal VOC's do; of a format that mostly counts from
    0, one must begin at 1 as well. Otherwise they are taken as is usual, and a remark says so.

    Args:
        found: All boxes.
        source: Names the data.
        usual: The convention of the format.

    Returns:
        The convention, and a sentence or "".
    """
    begins = [min(one.box[:2]) for one in found]
    zero = next((f"{one.where} begins at {at:g}" for one, at in zip(found, begins, strict=True) if 0 <= at < 1), "")  # fmt: skip
    edge = next((f"{one.where} ends at the width or height" for one in found if _is_at_edge(one)), "")  # fmt: skip
    shown: Coords = "zero-based" if zero else "one-based"
    why = zero or edge
    if not zero and (not edge or (usual == "zero-based" and 1 not in begins)):
        shown, why = usual, "no box shows it" if found else ""
    elif shown == usual:
        why = ""
    return shown, why and (
        f"{source} is read with coordinates that count from {_FIRST[shown]}, as {why} (Pascal VOC's count from 1, most others "
        "from 0): say coords='one-based' or 'zero-based', whichever is right"
    )


def _is_at_edge(one: Corners) -> bool:
    return one.size is not None and (one.box[2] == one.size[1] or one.box[3] == one.size[0])
