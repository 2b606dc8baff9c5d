"""Shapes that are drawn into photographs, for the data that examples make for themselves.

A shape is filled with a piece of another photograph, so that neither colour nor brightness tells it from what
lies around it.
"""

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw

from bench.compare.photographs import shipped_photographs

KINDS = ("circle", "square", "triangle")


class Cuts:
    """Squares out of the photographs that scikit-image ships, drawn one after the other."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        paths = [path for paths in shipped_photographs().values() for path in paths]
        self.photographs = [Image.open(path).convert("RGB") for path in paths]

    def __call__(self, side: int) -> Image.Image:
        """Return a square of so many pixels."""
        photograph = self.photographs[self.rng.integers(len(self.photographs))]
        part = int(min(photograph.size) * self.rng.uniform(0.3, 0.6))
        left, top = (self.rng.integers(0, whole - part) for whole in photograph.size)
        return photograph.crop((left, top, left + part, top + part)).resize((side, side))


def draw_shape(image: Image.Image, kind: str, box: Sequence[float], filling: Image.Image) -> None:
    """Put a shape that is filled with a picture into a box (left, top, right, bottom) of an image."""
    left, top, right, bottom = (round(one) for one in box)
    width, height = right - left, bottom - top
    mask = Image.new("L", (width, height))
    draw, last = ImageDraw.Draw(mask), (width - 1, height - 1)
    if kind == "circle":
        draw.ellipse((0, 0, *last), fill=255)
    elif kind == "square":
        draw.rectangle((0, 0, *last), fill=255)
    else:
        draw.polygon([(width // 2, 0), (0, last[1]), last], fill=255)
    image.paste(filling.resize((width, height)), (left, top), mask)
