"""Text of any script in a picture: measured, wrapped, shortened and drawn, with every character visible."""

from collections.abc import Iterator
from functools import cache
from itertools import groupby

from PIL import ImageDraw, ImageFont

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont
Colour = tuple[int, int, int]

ELLIPSIS = "..."
_FILES = (
    *("DejaVuSans.ttf", "NotoSans-Regular.ttf", "Arial Unicode.ttf", "NotoSansCJK-Regular.ttc"),
    *("NotoSansCJKsc-Regular.otf", "wqy-zenhei.ttc", "PingFang.ttc", "msyh.ttc", "unifont.ttf"),
)
_NOBODY_HAS = "\U0010ffff"


def line_height(size: int) -> int:
    """Return from one line to the next, in pixels, for letters of a size: what is drawn of a line lies within."""
    return round(1.45 * size)


def visible(text: str) -> str:
    r"""Return a text in which every character that no font here can draw is written as its code, such as ``\u732b``."""
    return "".join(
        char if char == " " or (char.isprintable() and _fonts_with(char)) else _code(char)
        for char in text
    )


def text_width(text: str, size: int) -> int:
    """Return how wide a line of text is, in pixels, rounded up."""
    return int(sum(font.getlength(part) for font, part in _runs(text, size))) + 1


def wrap(text: str, width: int, size: int, *, most: int = 3) -> list[str]:
    """Break a text into lines that fit into a width; what is left after the last line becomes an ellipsis.

    Args:
        text: Is made `visible`.
        width: In pixels.
        size: Of the letters, in pixels.
        most: Number of lines.
    """
    lines: list[str] = []
    rest = visible(text).strip()
    while rest:
        if len(lines) == most - 1:
            return [*lines, shorten_end(rest, width, size)]
        fits = _num_fitting(rest, width, size)
        cut = fits if fits == len(rest) else _break_before(rest, fits)
        lines.append(rest[:cut].rstrip())
        rest = rest[cut:].lstrip()
    return lines


def shorten_end(text: str, width: int, size: int) -> str:
    """Keep the beginning of a text, as much of it as fits into a width."""
    text = visible(text)
    if text_width(text, size) <= width:
        return text
    room = width - text_width(ELLIPSIS, size)
    return text[: _num_fitting(text, room, size)].rstrip() + ELLIPSIS


def shorten_start(text: str, width: int, size: int) -> str:
    """Keep the end of a text, which tells keys apart."""
    text = visible(text)
    if text_width(text, size) <= width:
        return text
    room, start = width - text_width(ELLIPSIS, size), 1
    while start < len(text) - 1 and text_width(text[start:], size) > room:
        start += 1
    return ELLIPSIS + text[start:]


def draw_text(
    pen: ImageDraw.ImageDraw, corner: tuple[int, int], text: str, size: int, colour: Colour
) -> None:
    """Draw a line of text.

    Args:
        pen: Draws on the picture.
        corner: Left and top of the line, which is `line_height` high.
        text: In one line.
        size: Of the letters, in pixels.
        colour: Red, green and blue.
    """
    left, base = float(corner[0]), corner[1] + round(1.1 * size)
    for font, part in _runs(text, size):
        if isinstance(font, ImageFont.FreeTypeFont):
            pen.text((left, base), part, colour, font, anchor="ls")
        else:  # a font of pixels, where PIL has no FreeType
            pen.text((left, corner[1]), part, colour, font)
        left += font.getlength(part)


def _break_before(text: str, most: int) -> int:
    """Return where a text is broken: behind a comma in its second half, else at a space, else anywhere."""
    comma, space = text.rfind(", ", 0, most) + 1, text.rfind(" ", 1, most + 1)
    return comma if 2 * comma > most else space if space > 0 else most


def _num_fitting(text: str, width: int, size: int) -> int:
    """Return how many characters from the first on fit, at least one."""
    count = 1
    while count < len(text) and text_width(text[: count + 1], size) <= width:
        count += 1
    return count


def _runs(text: str, size: int) -> Iterator[tuple[Font, str]]:
    """Yield parts of a text with the font that draws them: one font for all of it where there is one."""
    fonts = _fonts(size)
    common = set.intersection(*map(set, map(_fonts_with, text))) if text else set()
    if common:
        yield fonts[min(common)], text
        return
    for number, chars in groupby(text, lambda char: min(_fonts_with(char), default=0)):
        yield fonts[number], "".join(chars)


@cache
def _fonts_with(char: str) -> tuple[int, ...]:
    """Return the numbers of the fonts that have a character, or nothing to draw for it."""
    return tuple(
        number
        for number, font in enumerate(_fonts(16))
        if char.isspace() or _glyph(font, char) != _glyph(font, _NOBODY_HAS)
    )


def _glyph(font: Font, char: str) -> object:
    try:
        drawn = font.getmask(char)
    except UnicodeEncodeError:  # of a font of pixels
        return None
    return drawn.size, bytes(drawn)


@cache
def _fonts(size: int) -> tuple[Font, ...]:
    """Return PIL's own font, which has few letters, and those of the system that PIL finds."""
    found: list[Font] = [ImageFont.load_default(size)]
    for name in _FILES:
        try:
            found.append(ImageFont.truetype(name, size))
        except OSError:
            continue
    return tuple(found)


def _code(char: str) -> str:
    return char.encode("unicode_escape").decode()
