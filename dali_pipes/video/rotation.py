"""Crops of upright frames, in frames that are not turned yet."""

Rect = tuple[int, int, int, int]
"""Top, left, height and width."""


def stored_rect(upright: Rect, size: tuple[int, int], rotation: int) -> Rect:
    """Return where a rectangle of an upright frame lies in the frame as it is stored.

    Args:
        upright: In pixels of the upright frame.
        size: Height and width of the stored frame.
        rotation: Degrees by which the stored frame is turned clockwise to be upright: 0, 90, 180, 270.
    """
    top, left, height, width = upright
    rows, columns = size
    if rotation == 90:
        return rows - left - width, top, width, height
    if rotation == 180:
        return rows - top - height, columns - left - width, height, width
    if rotation == 270:
        return left, columns - top - height, width, height
    return upright
