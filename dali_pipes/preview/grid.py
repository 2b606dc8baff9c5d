"""Pictures in rows and columns, each with lines of text below it."""

from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image

from dali_pipes.preview.lettering import Colour, wrap
from dali_pipes.preview.page import FONT_SIZE, FRAME, GAP, HEADING_SIZE, Line, Page, indent

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
