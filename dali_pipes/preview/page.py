"""Lay pictures out in rows and columns with texts around them, in any script and without overlaps."""

from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont

Colour = tuple[int, int, int]

# Fonts with many scripts, by the names under which Linux, macOS and Windows install them.
_FILES = (
    *("DejaVuSans.ttf", "NotoSans-Regular.ttf", "Arial Unicode.ttf", "NotoSansCJK-Regular.ttc"),
    *("NotoSansCJKsc-Regular.otf", "wqy-zenhei.ttc", "PingFang.ttc", "msyh.ttc", "unifont.ttf"),
)
_NO_CHARACTER = "\U0010ffff"  # no font has it, so its glyph is the one for missing characters
_ELLIPSIS = "..."


def line_height(size: int) -> int:
    """Return the height of a line in pixels for a font size; all letters lie within it."""
    return round(1.45 * size)


def visible(text: str) -> str:
    r"""Return a text with each character that its font lacks replaced by its code, such as ``\u732b``."""
    number = _font_number(text)
    return "".join(
        char
        if char == " " or (char.isprintable() and _can_draw(number, char))
        else char.encode("unicode_escape").decode()
        for char in text
    )


def text_width(text: str, size: int) -> int:
    """Return the width of a line of text in pixels, rounded up."""
    return int(_fonts(size)[_font_number(text)].getlength(text)) + 1


def wrap(text: str, width: int, size: int, *, most: int = 3) -> list[str]:
    """Break a text into lines that fit into a width; an ellipsis replaces the rest after the last line.

    Args:
        text: The text; see `visible`.
        width: In pixels.
        size: Font size in pixels.
        most: Largest number of lines.
    """
    lines: list[str] = []
    rest = visible(text).strip()
    while rest and len(lines) < most - 1:
        cut = _num_fitting(rest, width, size)
        if cut < len(rest):
            # After a comma in the second half, else at a space, else anywhere.
            comma, space = rest.rfind(", ", 0, cut) + 1, rest.rfind(" ", 1, cut + 1)
            cut = comma if 2 * comma > cut else space if space > 0 else cut
        lines.append(rest[:cut].rstrip())
        rest = rest[cut:].lstrip()
    if text_width(rest, size) > width:
        room = width - text_width(_ELLIPSIS, size)
        rest = rest[: _num_fitting(rest, room, size)].rstrip() + _ELLIPSIS
    return [*lines, rest] if rest else lines


def draw_text(
    pen: ImageDraw.ImageDraw, corner: tuple[int, int], text: str, size: int, colour: Colour
) -> None:
    """Draw a line of text.

    Args:
        pen: Pillow's drawing interface of the picture.
        corner: Left and top of the line, which is `line_height` high.
        text: A single line.
        size: Font size in pixels.
        colour: Red, green and blue.
    """
    base = (corner[0], corner[1] + round(1.1 * size))
    pen.text(base, text, colour, _fonts(size)[_font_number(text)], anchor="ls")


def _num_fitting(text: str, width: int, size: int) -> int:
    """Return the number of characters at the beginning that fit into a width, at least one."""
    lengths = range(1, len(text) + 1)
    return max(1, bisect_right(lengths, width, key=lambda end: text_width(text[:end], size)))


def _font_number(text: str) -> int:
    """Return the number of the first font that has the most characters of a text."""
    return min(
        range(len(_fonts(16))),
        key=lambda number: sum(not _can_draw(number, char) for char in set(text)),
    )


@cache
def _can_draw(number: int, char: str) -> bool:
    """Return whether a font has a character; every font has white space."""
    if char.isspace():
        return True
    drawn, missing = (_fonts(16)[number].getmask(one) for one in (char, _NO_CHARACTER))
    return (drawn.size, bytes(drawn)) != (missing.size, bytes(missing))


@cache
def _fonts(size: int) -> tuple[ImageFont.FreeTypeFont, ...]:
    """Return Pillow's own font, which has few letters, and the fonts of the system that Pillow finds."""
    own = ImageFont.load_default(size)
    assert isinstance(own, ImageFont.FreeTypeFont)  # all wheels of Pillow include FreeType
    fonts = [own]
    for name in _FILES:
        with suppress(OSError):  # this system does not have it
            fonts.append(ImageFont.truetype(name, size))
    return tuple(fonts)


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
