"""A page: pictures and lines of text at their places, of which none covers another."""

from dataclasses import dataclass, field
from typing import NamedTuple

from PIL import Image, ImageDraw

from dali_pipes.preview.lettering import Colour, draw_text, line_height, text_width

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
