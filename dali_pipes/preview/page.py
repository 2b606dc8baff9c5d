"""Lay out a page of pictures in rows and columns, with a caption below each picture."""

import textwrap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import zip_longest
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont, ImageOps

Colour = tuple[int, int, int]

PAPER: Colour = (62, 70, 84)
"""A blue gray, so that black, white or gray edges of a picture are visible as part of the picture."""
INK: Colour = (245, 246, 248)
FAINT: Colour = (190, 198, 210)
FRAME: Colour = (150, 160, 176)
"""The colour of frames around pictures; INK is for text, FAINT for secondary text."""

NARROWEST = 215
"""Smallest width of a column in pixels, which leaves room for text below small pictures."""

TITLE_WIDTH = 200
"""Width of the text to the left of rows, in pixels."""

# Fonts with many scripts, by their file names on Linux, macOS and Windows; those with the most scripts first.
_FONTS = (
    "NotoSansCJK-Regular.ttc",
    "PingFang.ttc",
    "msyh.ttc",
    "Arial Unicode.ttf",
    "DejaVuSans.ttf",
)
_FONT_SIZE, _LINE_HEIGHT = 13, 19  # pixels; all letters lie within a line
_GAP = 8  # pixels between cells
_MOST_LINES = 4  # largest number of lines of a text; a long key would fill the page
_HEADING_MIN = 640  # pixels, so that the heading of a narrow page does not have many lines


class Line(NamedTuple):
    """A text in one colour."""

    text: str
    colour: Colour = INK


@dataclass(frozen=True)
class Cell:
    """A picture at its final size, and the texts below it."""

    picture: Image.Image
    caption: Sequence[Line] = ()

    def render(self, width: int) -> Image.Image:
        """Return an image of the picture with a frame of one pixel, above its caption of `width` pixels."""
        framed = ImageOps.expand(self.picture, 1, FRAME)
        return join([framed, draw_text(self.caption, width)], gap=_GAP // 2)


class Row(NamedTuple):
    """Cells in columns (None for an empty column), and texts to the left of them."""

    cells: Sequence[Cell | None]
    title: Sequence[Line] = ()


@dataclass(frozen=True)
class Preview:
    """A page of pictures.

    Attributes:
        rows: The pictures and their texts.
        heading: Texts above the rows.
        missing: For each pair of decoder and engine that cannot make the pictures, the reason by name of the pair.
    """

    rows: Sequence[Row]
    heading: Sequence[str] = ()
    missing: Mapping[str, str] = field(default_factory=dict)

    @property
    def picture(self) -> Image.Image:
        """The page as a Pillow image; each column is as wide as its widest picture."""
        columns = zip_longest(*(row.cells for row in self.rows))
        widths = [
            max(NARROWEST, *(cell.picture.width + 2 for cell in column if cell))
            for column in columns
        ]
        title_width = TITLE_WIDTH if any(row.title for row in self.rows) else 1
        full_width = max(_HEADING_MIN, title_width + sum(widths) + _GAP * len(widths))
        parts = [draw_text([Line(text) for text in self.heading], full_width)]
        for row in self.rows:
            cells = [draw_text(row.title, title_width)]
            for cell, width in zip(row.cells, widths, strict=False):
                cells.append(draw_text([], width) if cell is None else cell.render(width))
            parts.append(join(cells, across=True))
        return ImageOps.expand(join(parts), _GAP, PAPER)


def join(images: Sequence[Image.Image], *, across: bool = False, gap: int = _GAP) -> Image.Image:
    """Return images joined vertically, or horizontally if `across`, `gap` pixels apart."""
    widths, heights = [image.width for image in images], [image.height for image in images]
    gaps = gap * (len(images) - 1)
    size = (sum(widths) + gaps, max(heights)) if across else (max(widths), sum(heights) + gaps)
    joined, position = Image.new("RGB", size, PAPER), 0
    for image in images:
        joined.paste(image, (position, 0) if across else (0, position))
        position += gap + (image.width if across else image.height)
    return joined


def draw_text(lines: Sequence[Line], width: int) -> Image.Image:
    """Return an image of a given width with wrapped texts below each other; words that are too wide are truncated."""
    wrapped = [Line(part, colour) for text, colour in lines for part in wrap(text, width)]
    image = Image.new("RGB", (width, max(1, _LINE_HEIGHT * len(wrapped))), PAPER)
    pen = ImageDraw.Draw(image)
    for number, (text, colour) in enumerate(wrapped):
        pen.text((0, number * _LINE_HEIGHT), text, colour, _font())
    return image


def wrap(text: str, width: int) -> list[str]:
    """Break a text into lines of about `width` pixels; after the last line an ellipsis replaces the rest."""
    text = " ".join(text.split())
    # Ensures that a line with wider letters than the average stays within the width, too.
    num_letters = int(0.93 * width * len(text) / max(1.0, _font().getlength(text)))
    return textwrap.wrap(text, max(8, num_letters), max_lines=_MOST_LINES, placeholder=" ...")


@cache
def _font() -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Return the first font that is installed, or Pillow's own, which has Latin letters only."""
    for name in _FONTS:
        with suppress(OSError):  # the font is not installed
            return ImageFont.truetype(name, _FONT_SIZE)
    return ImageFont.load_default(_FONT_SIZE)
