"""Layout: nothing covers anything else or is cut off, and every character can be seen."""

from collections.abc import Iterator

import numpy as np
import pytest
from PIL import Image, ImageDraw

from dali_pipes.preview import page as page_module
from dali_pipes.preview.clips import ClipPictures, Strip
from dali_pipes.preview.page import (
    PAPER,
    Cell,
    Line,
    Page,
    Row,
    draw_text,
    lay_out,
    line_height,
    text_width,
    visible,
    wrap,
)
from dali_pipes.preview.strips import render_strips

LONG = "Plantae_Tracheophyta_Magnoliopsida_" * 9
HARD = ["gjpqy|ÄÉ", "Ёжик и λ", "猫と犬", "عربي", "नमस्ते", "a" * 300, "two\nlines\tand \x07"]


@pytest.fixture
def only_pil_font(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine without fonts."""
    monkeypatch.setattr(page_module, "_FILES", ())
    for known in (page_module._fonts, page_module._can_draw):
        known.cache_clear()
    yield
    for known in (page_module._fonts, page_module._can_draw):
        known.cache_clear()


def faults(page: Page) -> list[str]:
    """Which things of a page cover each other or lie outside."""
    width, height = page.size
    found = [
        f"{one} is outside"
        for one in page.placed
        if one.left < 1 or one.top < 1 or one.right >= width or one.bottom >= height
    ]
    for number, one in enumerate(page.placed):
        for other in page.placed[:number]:
            apart = (
                one.right <= other.left
                or other.right <= one.left
                or one.bottom <= other.top
                or other.bottom <= one.top
            )
            if not apart:
                found.append(f"{one} covers {other}")
    return found


def hard_page() -> Page:
    """Pictures of many sizes, under texts that are hard to place."""
    rng = np.random.default_rng(0)
    rows = []
    for row in range(3):
        cells: list[Cell | None] = [None] if row == 1 else []
        for _ in range(4 - row):
            size = tuple(rng.integers(1, 300, 2).tolist())
            lines = [Line(text, swatch=(255, 0, 0)) for text in (*HARD, LONG)]
            cells.append(Cell(Image.new("RGB", size), lines[row:]))
        rows.append(Row(cells, [LONG, "differs"] if row == 1 else []))
    return lay_out(rows, [LONG, "a heading"])


def hard_clip(num_frames: int, size: tuple[int, int], *views: tuple[int, int]) -> ClipPictures:
    source = [np.zeros((*size, 3), np.uint8)] * num_frames
    return ClipPictures(
        key=LONG,
        label="猫 " + LONG,
        epoch=3,
        numbers=np.arange(num_frames) + 100_000,
        seconds=np.arange(num_frames) * 1000.0,
        marks=["held: #100123 does not decode", "", "padding"] * (num_frames // 3 + 1),
        source=source,
        views=[
            Strip(LONG, [np.zeros((*view, 3), np.uint8)] * num_frames, [LONG, "HorizontalFlip"])
            for view in views
        ],
    )


@pytest.mark.parametrize("fonts", ["of the machine", "of PIL alone"])
def test_nothing_covers_anything(fonts: str, request: pytest.FixtureRequest) -> None:
    """Boxes of all pictures and lines are apart and on the page; one that is moved is noticed."""
    if fonts == "of PIL alone":
        request.getfixturevalue("only_pil_font")
    clips = [
        hard_clip(3, (32, 32), (8, 8)),
        hard_clip(20, (240, 180), (112, 112), (48, 300)),
        hard_clip(1, (5, 400), (224, 224)),
    ]
    for page in (hard_page(), render_strips(clips, [LONG])):
        assert faults(page) == []
        assert page.render().size == page.size
        moved = page.placed[-1]
        page.placed[-1] = moved._replace(top=moved.top - 12, bottom=moved.bottom - 12)
        assert faults(page) != []


@pytest.mark.parametrize("text", HARD)
@pytest.mark.parametrize("size", [13, 16])
def test_letters_lie_within_their_line(text: str, size: int) -> None:
    """All ink of a line is in its box, and there is some."""
    text = visible(text)[:60]
    image = Image.new("RGB", (text_width(text, size) + 200, 3 * line_height(size)))
    draw_text(ImageDraw.Draw(image), (100, line_height(size)), text, size, (255, 255, 255))

    left, top, right, bottom = image.getbbox() or (0, 0, 0, 0)
    assert right - left > 5
    assert line_height(size) <= top < bottom <= 2 * line_height(size)
    assert left >= 98  # some letters begin a pixel to the left
    assert right <= 102 + text_width(text, size)


def test_what_no_font_has_is_seen_as_its_code(only_pil_font: None) -> None:
    """Not as a box, nor left out; what a font has stays."""
    del only_pil_font
    assert visible("cat 猫\n") == "cat \\u732b\\n"
    assert visible("Ёж") == "\\u0401\\u0436"


def test_lines_are_broken_and_shortened() -> None:
    """Lines fit; nothing is left out but what the ellipsis stands for."""
    text = "RandomResizedCrop: 253 x 240 px at top 33, left 145, to 224 x 224"
    lines = wrap(text, 190, 13, most=9)
    assert " ".join(lines) == text
    assert max(text_width(line, 13) for line in lines) <= 190
    cut = wrap(LONG, 190, 13, most=3)
    assert len(cut) == 3
    assert LONG.startswith("".join(cut).removesuffix("..."))
    assert cut[-1].endswith("...")
    assert wrap("short", 190, 13, most=1) == ["short"]


def test_paper_is_no_color_of_padding() -> None:
    """Black, white and gray pictures can be told from the page, and have a frame around them."""
    page = Page()
    page.put_picture(20, 20, Image.new("RGB", (30, 30)))
    drawn = np.asarray(page.render())

    assert np.ptp(PAPER) > 15
    assert (drawn[20:50, 20:50] == 0).all()
    assert (drawn[19, 19:51] == drawn[19, 19]).all()
    assert (drawn[19, 19] != PAPER).any()
    assert (drawn[10, 10] == PAPER).all()
