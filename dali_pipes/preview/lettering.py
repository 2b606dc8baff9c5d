"""Text of any script in a picture: measured, wrapped and drawn, with every character visible."""

from bisect import bisect_right
from contextlib import suppress
from functools import cache

from PIL import ImageDraw, ImageFont

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
