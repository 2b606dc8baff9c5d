"""Lay pictures out in rows and columns with texts around them, without overlaps."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from PIL import Image, ImageDraw

from dali_pipes.preview.lettering import Colour, draw_text, line_height, text_width, wrap

PAPER: Colour = (62, 70, 84)
"""A blue gray, so that black, white or gray edges of a picture are seen as part of the picture."""
INK: Colour = (245, 246, 248)
FAINT: Colour = (190, 198, 210)
FRAME: Colour = (150, 160, 176)
WARNING: Colour = (255, 190, 92)

FONT_SIZE, HEADING_SIZE = 13, 16
GAP = 8

NARROWEST = 215
"""Smallest width of a column in pixels, which leaves room for words below small pictures."""

MARGIN = 210
"""Width of the words to the left of rows, in pixels."""

_MOST_LINES = 4  # of a text; a long key would fill the page
_HEADING_MIN = 640  # pixels, so that a narrow page does not break its heading into many lines


class Line(NamedTuple):
    """A text, preceded by a square of a colour if it explains one."""

    text: str
    colour: Colour = INK
    swatch: Colour | None = None
    size: int = FONT_SIZE

    @property
    def indent(self) -> int:
        """Width of the square and the gap behind it, in pixels."""
        return 0 if self.swatch is None else round(1.3 * self.size)


class Placed(NamedTuple):
    """A picture or a line at a position: left and top, right and bottom (half open), in pixels."""

    left: int
    top: int
    right: int
    bottom: int
    what: Image.Image | Line
    frame: Colour | None = None


@dataclass
class Page:
    """Pictures and lines at their positions; the page is as large as they need.

    Attributes:
        placed: All pictures and lines.
    """

    placed: list[Placed] = field(default_factory=list)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        right = max((one.right for one in self.placed), default=0)
        bottom = max((one.bottom for one in self.placed), default=0)
        return right + GAP, bottom + GAP

    def put_picture(
        self, left: int, top: int, picture: Image.Image, *, frame: Colour = FRAME
    ) -> None:
        """Add a picture with a frame of one pixel around it."""
        right, bottom = left + picture.width, top + picture.height
        self.placed.append(Placed(left, top, right, bottom, picture, frame))

    def put_texts(self, left: int, top: int, texts: Sequence[Line], width: int) -> int:
        """Add texts below each other, wrapped to a width; return the top of what follows."""
        for text in texts:
            start = left + text.indent
            lines = wrap(text.text, width - text.indent, text.size, most=_MOST_LINES)
            for number, words in enumerate(lines):
                line = Line(words, text.colour, None if number else text.swatch, text.size)
                right, bottom = start + text_width(words, text.size), top + line_height(text.size)
                self.placed.append(Placed(start - line.indent, top, right, bottom, line))
                top = bottom
        return top

    def render(self, size: tuple[int, int] | None = None) -> Image.Image:
        """Draw the page, with a given width and height or as large as it needs."""
        canvas = Image.new("RGB", size or self.size, PAPER)
        pen = ImageDraw.Draw(canvas)
        for left, top, right, bottom, what, frame in self.placed:
            if isinstance(what, Image.Image):
                canvas.paste(what, (left, top))
                pen.rectangle((left - 1, top - 1, right, bottom), outline=frame)
                continue
            if what.swatch is not None:
                side = round(0.8 * what.size)
                first = top + (bottom - top - side) // 2
                pen.rectangle((left, first, left + side, first + side), what.swatch)
            draw_text(pen, (left + what.indent, top), what.text, what.size, what.colour)
        return canvas


@dataclass(frozen=True)
class Cell:
    """A picture at its final size, and the texts below it."""

    picture: Image.Image
    caption: Sequence[Line] = ()
    frame: Colour = FRAME


@dataclass(frozen=True)
class Row:
    """Cells in columns, and texts around them.

    Attributes:
        cells: A cell for each column, None for an empty column.
        words: Texts to the left of the cells.
        above: Texts above the cells, as wide as the page.
        below: Texts below the cells, as wide as all columns.
    """

    cells: Sequence[Cell | None] = ()
    words: Sequence[str] = ()
    above: Sequence[Line] = ()
    below: Sequence[Line] = ()


def lay_out(
    rows: Sequence[Row], heading: Sequence[str] = (), *, narrowest: int = NARROWEST
) -> Page:
    """Put rows below each other; each column is as wide as its widest picture.

    Args:
        rows: The rows.
        heading: Texts above the rows, wrapped to the width of the page.
        narrowest: Smallest width of a column, in pixels.
    """
    page = Page()
    widths = [narrowest] * max(len(row.cells) for row in rows)
    for row in rows:
        for column, cell in enumerate(row.cells):
            widths[column] = max(widths[column], cell.picture.width if cell else 0)
    margin = MARGIN if any(row.words for row in rows) else 0
    columns = sum(widths) + GAP * (len(widths) - 1)
    full = max(margin + columns, _HEADING_MIN)
    top = page.put_texts(GAP, GAP, [Line(text, size=HEADING_SIZE) for text in heading], full)
    top += GAP if heading else 0
    for row in rows:
        top = page.put_texts(GAP, top, row.above, full)
        bottoms = [page.put_texts(GAP, top, [Line(text) for text in row.words], margin - GAP)]
        left = GAP + margin
        for cell, width in zip(row.cells, widths, strict=False):
            if cell is not None:
                page.put_picture(left, top, cell.picture, frame=cell.frame)
                below = top + cell.picture.height + GAP // 2
                bottoms.append(page.put_texts(left, below, cell.caption, width))
            left += width + GAP
        top = page.put_texts(GAP + margin, max(bottoms), row.below, full - margin)
        top += 2 * GAP if row.cells else GAP // 2
    return page
