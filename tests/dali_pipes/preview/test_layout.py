"""Layout: pictures are shown unchanged beside and below each other, and texts stay in their columns."""

import numpy as np
import pytest
from PIL import Image

from dali_pipes.preview.clips import ClipPictures, Strip
from dali_pipes.preview.page import (
    NARROWEST,
    PAPER,
    Cell,
    Line,
    Preview,
    Row,
    draw_text,
    join,
    wrap,
)
from dali_pipes.preview.strips import render_strips

LONG = "Plantae_Tracheophyta_Magnoliopsida_" * 9
HARD = ["gjpqy|ÄÉ", "Ёжик и λ", "猫と犬", "عربي", "नमस्ते", "a" * 300, "two\nlines\tand \x07", ""]


def test_pictures_are_shown_unchanged() -> None:
    """Each picture of a page of many sizes and texts is on it as it was given."""
    rng = np.random.default_rng(0)
    rows, given = [], []
    for row in range(3):
        cells: list[Cell | None] = [None] if row == 1 else []
        for _ in range(4 - row):
            picture = rng.integers(0, 256, (*rng.integers(1, 300, 2), 3), np.uint8)
            given.append(picture)
            cells.append(Cell(Image.fromarray(picture), [Line(text) for text in (*HARD, LONG)]))
        rows.append(Row(cells, [Line(LONG)] if row == 1 else []))
    page = np.asarray(Preview(rows, [LONG, "a heading"]).picture)
    for picture in given:
        height, width = picture.shape[:2]
        corners = np.argwhere((page == picture[0, 0]).all(axis=2)).tolist()
        assert any(
            np.array_equal(page[top : top + height, left : left + width], picture)
            for top, left in corners
        )


@pytest.mark.parametrize("text", HARD)
def test_texts_stay_in_their_width(text: str) -> None:
    """Texts of any script are drawn into an image of the width."""
    image = draw_text([Line(text)], NARROWEST)
    assert image.width == NARROWEST
    assert (np.asarray(image) != PAPER).any() == bool(text)


def test_lines_are_broken_and_shortened() -> None:
    """Nothing is left out but what the ellipsis stands for."""
    text = "RandomResizedCrop: top 33, left 145, 253 x 240 px, to 224 x 224"
    lines = wrap(text, 190)
    assert len(lines) > 1
    assert " ".join(lines) == text
    cut = wrap(LONG, 190)
    assert cut[-1].endswith("...")
    assert LONG.startswith("".join(cut).removesuffix("...").rstrip())
    assert wrap("short", 190) == ["short"]


def test_clips_of_different_sizes() -> None:
    """Long names, and frames and views of any size, make a page."""
    for num_frames, size, view in ((3, (32, 32), (8, 8)), (20, (240, 180), (48, 300))):
        clip = ClipPictures(
            key=LONG,
            label="猫 " + LONG,
            epoch=3,
            numbers=np.arange(num_frames) + 100_000,
            seconds=np.arange(num_frames) * 1000.0,
            source=[np.zeros((*size, 3), np.uint8)] * num_frames,
            views=[Strip(LONG, [np.zeros((*view, 3), np.uint8)] * num_frames, [LONG, "Flip"])],
        )
        assert render_strips([clip], [LONG]).picture.height > 100


def test_paper_is_no_color_of_padding() -> None:
    """Black, white and gray pictures can be told from the page, and have a frame around them."""
    drawn = np.asarray(Cell(Image.new("RGB", (30, 30))).render(40))

    assert np.ptp(PAPER) > 15
    assert (drawn[1:31, 1:31] == 0).all()
    assert (drawn[0, :32] == drawn[0, 0]).all()
    assert (drawn[0, 0] != PAPER).any()
    assert (drawn[10, 35] == PAPER).all()
    assert join([Image.new("RGB", (3, 4))] * 2, gap=1).size == (3, 9)
