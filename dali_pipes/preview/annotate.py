"""Masks, boxes and keypoints drawn on a picture."""

import colorsys
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from dali_pipes.preview.canvas import Picture

_MASK_SHARE = 0.45  # of the mask's colour over the picture
_LINE_WIDTH = 2
_DOT_RADIUS = 3
_USUAL_SIDE = 320  # pixels, for which these widths are meant


def annotate(
    picture: Picture,
    *,
    masks: Iterable[NDArray[np.integer]] = (),
    boxes: NDArray[np.floating] | None = None,
    box_labels: NDArray[np.integer] | None = None,
    keypoints: NDArray[np.floating] | None = None,
) -> Picture:
    """Return the picture with its targets on it.

    Args:
        picture: uint8 [H, W, 3].
        masks: Integer arrays [H, W]; every value but 0 gets a colour of its own.
        boxes: [N, 4] as x1, y1, x2, y2 in pixels.
        box_labels: [N]; boxes of one label have one colour, which a mask's value has as well.
        keypoints: [K, 2] as x, y in pixels.
    """
    for mask in masks:
        picture = _tinted(picture, mask)
    image = Image.fromarray(picture)
    pen = ImageDraw.Draw(image)
    scale = max(1, round(max(image.size) / _USUAL_SIDE))  # large pictures may be shrunk later
    radius = scale * _DOT_RADIUS
    for number, (left, top, right, bottom) in enumerate([] if boxes is None else boxes.tolist()):
        colour = color_of(number + 1 if box_labels is None else int(box_labels[number]))
        # A box ends where the next pixel would begin.
        pen.rectangle(
            (left, top, max(left, right - 1), max(top, bottom - 1)),
            outline=colour,
            width=scale * _LINE_WIDTH,
        )
    for number, (x, y) in enumerate([] if keypoints is None else keypoints.tolist()):
        around = (x - radius, y - radius, x + radius, y + radius)
        pen.ellipse(around, fill=color_of(number + 1), outline=(255, 255, 255))
    return np.asarray(image)


def _tinted(picture: Picture, mask: NDArray[np.integer]) -> Picture:
    tinted = picture.astype(np.float32)
    for value in np.unique(mask[mask != 0]).tolist():
        where = mask == value
        tinted[where] += _MASK_SHARE * (np.array(color_of(value), np.float32) - tinted[where])
    return np.rint(tinted).astype(np.uint8)


def color_of(number: int) -> tuple[int, int, int]:
    """Return the colour of a class or of a mask's value; 255, "ignore", is gray."""
    if number == 255:
        return 160, 160, 160
    # The golden ratio keeps the hues of neighbouring numbers apart.
    red, green, blue = colorsys.hsv_to_rgb(number * 0.61803398875 % 1, 0.85, 1.0)
    return round(255 * red), round(255 * green), round(255 * blue)
