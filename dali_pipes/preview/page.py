"""A page: pictures in rows and columns with lines of text, none of which covers another."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from PIL import Image, ImageDraw

from dali_pipes.preview.lettering import Colour, draw_text, line_height, text_width, wrap

PAPER: Colour = (62, 70, 84)
"""A blue gray, which is neither black, white nor gray: what is black in a picture is the picture's own."""
INK: Colour = (245, 246, 248)
FAINT: Colour = (190, 198, 210)
FRAME: Colour = (150, 160, 176)
WARNING: Colour = (255, 190, 92)

FONT_SIZE, HEADING_SIZE = 13, 16
GAP = 8


class Line(NamedTuple):
    """A line of text, after a square of a colour where it explains one."""

    text: str
    colour: Colour = INK
    swatch: Colour | None = None


class Placed(NamedTuple):
    """Something at its place: left and top, right and bottom (half open), in pixels."""

    left: int
    top: int
    right: int
    bottom: int
    what: Image.Image | Line
    size: int = FONT_SIZE
    frame: Colour | None = None


@dataclass
class Page:
    """Collects what is drawn; it becomes as large as that needs.

    Attributes:
        placed: Everything, with its box.
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
        """Put a picture somewhere, within a frame of one pixel around it."""
        right, bottom = left + picture.width, top + picture.height
        self.placed.append(Placed(left, top, right, bottom, picture, frame=frame))

    def put_line(self, left: int, top: int, line: Line, *, size: int = FONT_SIZE) -> int:
        """Put a line of text somewhere, and return where the next one is to begin."""
        bottom = top + line_height(size)
        right = left + indent(line, size) + text_width(line.text, size)
        self.placed.append(Placed(left, top, right, bottom, line, size))
        return bottom

    def render(self) -> Image.Image:
        """Draw everything."""
        canvas = Image.new("RGB", self.size, PAPER)
        pen = ImageDraw.Draw(canvas)
        for left, top, right, bottom, what, size, frame in self.placed:
            if isinstance(what, Image.Image):
                canvas.paste(what, (left, top))
                pen.rectangle((left - 1, top - 1, right, bottom), outline=frame)
                continue
            if what.swatch is not None:
                side = round(0.8 * size)
                first = top + (bottom - top - side) // 2
                pen.rectangle((left, first, left + side, first + side), what.swatch)
            draw_text(pen, (left + indent(what, size), top), what.text, size, what.colour)
        return canvas


def indent(line: Line, size: int) -> int:
    """Return how far the text of a line stands from its left end, in pixels."""
    return 0 if line.swatch is None else round(1.3 * size)


NARROWEST = 215
"""Width of a column in pixels, so that there is room for words below small pictures."""

MARGIN = 250
"""Width of the words beside a row, in pixels."""

_MOST_LINES = 4  # of one text below a picture
_HEADING_MIN = 640


@dataclass(frozen=True)
class Cell:
    """A picture as it is shown, and the texts below it, which are wrapped."""

    picture: Image.Image
    caption: Sequence[Line] = ()
    frame: Colour = FRAME


@dataclass(frozen=True)
class Row:
    """Cells, None where there is none, and words to the left of them."""

    cells: Sequence[Cell | None]
    words: Sequence[str] = ()


def lay_out(rows: Sequence[Row], heading: Sequence[str] = ()) -> Page:
    """Put rows below each other; a column is as wide as its widest picture needs.

    Args:
        rows: Their cells stand in columns.
        heading: Texts above all of them, wrapped to the width of the page.
    """
    page = Page()
    count = max(len(row.cells) for row in rows)
    widths = [_column_width(rows, column) for column in range(count)]
    margin = MARGIN if any(row.words for row in rows) else 0
    whole = max(margin + sum(widths) + GAP * (count - 1), _HEADING_MIN)
    top = GAP
    for text in heading:
        for line in wrap(text, whole, HEADING_SIZE, most=4):
            top = page.put_line(GAP, top, Line(line), size=HEADING_SIZE)
    top += GAP if heading else 0
    for row in rows:
        bottoms = [_put_texts(page, GAP, top, [Line(text) for text in row.words], MARGIN - GAP)]
        left = GAP + margin
        for cell, width in zip(row.cells, widths, strict=False):
            if cell is not None:
                page.put_picture(left, top, cell.picture, frame=cell.frame)
                below = top + cell.picture.height + GAP // 2
                bottoms.append(_put_texts(page, left, below, cell.caption, width))
            left += width + GAP
        top = max(bottoms) + 2 * GAP
    return page


def _column_width(rows: Sequence[Row], column: int) -> int:
    cells = [row.cells[column] for row in rows if column < len(row.cells)]
    return max([NARROWEST, *(cell.picture.width for cell in cells if cell)])


def _put_texts(page: Page, left: int, top: int, texts: Sequence[Line], width: int) -> int:
    """Put texts below each other, wrapped to a width; return where they end."""
    for text in texts:
        inner = width - indent(text, FONT_SIZE)
        for number, words in enumerate(wrap(text.text, inner, FONT_SIZE, most=_MOST_LINES)):
            swatch = text.swatch if number == 0 else None
            shift = indent(text, FONT_SIZE) if number and text.swatch else 0
            top = page.put_line(left + shift, top, Line(words, text.colour, swatch))
    return top
