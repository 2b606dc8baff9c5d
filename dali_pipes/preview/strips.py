"""Clips laid out as strips of frames, and as moving pictures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dali_pipes.preview.cells import fit
from dali_pipes.preview.clips import ClipPictures
from dali_pipes.preview.lettering import shorten_end, shorten_start, wrap
from dali_pipes.preview.page import (
    FAINT,
    FONT_SIZE,
    FRAME,
    GAP,
    HEADING_SIZE,
    PAPER,
    WARNING,
    Line,
    Page,
)
from dali_pipes.preview.pictures import small
from gpu_aug import Recipe, Resize, Targets

NUM_SHOWN = 8
"""Frames of a strip; of longer clips so many are taken, evenly spread, the first and the last among them."""

HEIGHT, WIDTH = 160, 216
"""Largest height and width of a frame that is drawn, in pixels; much smaller ones are enlarged."""

MARGIN = 150
"""To the left of the frames, for words."""

_NARROWEST = 104  # a column, so that there is room for a frame's number and time
_PLAIN = Recipe([Resize((1, 1))])


def render_strips(clips: Sequence[ClipPictures], heading: Sequence[str] = ()) -> Page:
    """Draw a block for each clip: its key, its frames with their numbers and times, and every view.

    Args:
        clips: In any epochs.
        heading: Texts above all of them.
    """
    page = Page()
    top = GAP
    for text in heading:
        for line in wrap(text, MARGIN + NUM_SHOWN * _NARROWEST, HEADING_SIZE, most=3):
            top = page.put_line(GAP, top, Line(line), size=HEADING_SIZE)
    for clip in clips:
        top = _put_block(page, clip, top + 2 * GAP)
    return page


def shown_frames(num_frames: int) -> list[int]:
    """Which frames of a clip are drawn."""
    count = min(NUM_SHOWN, num_frames)
    return [int(frame) for frame in np.linspace(0, num_frames - 1, count).round()]


def _put_block(page: Page, clip: ClipPictures, top: int) -> int:
    """Put a clip on the page, and return where it ends."""
    frames = shown_frames(len(clip.source))
    strips = [
        [fit(strip[frame], Targets(), _PLAIN, (HEIGHT, WIDTH))[0] for frame in frames]
        for strip in (clip.source, *(view.frames for view in clip.views))
    ]
    column = max(_NARROWEST, *(strip[0].width for strip in strips))
    width = len(frames) * (column + GAP)
    top = _put_heading(page, clip, top, MARGIN + width)
    names = ["source", *(view.name for view in clip.views)]
    for number, (name, strip) in enumerate(zip(names, strips, strict=True)):
        bottoms = [top + strip[0].height + GAP // 2]
        for place, picture in enumerate(strip):
            left, frame = GAP + MARGIN + place * (column + GAP), frames[place]
            marked = clip.marks[frame]
            page.put_picture(left, top, picture, frame=WARNING if marked else FRAME)
            if number == 0:
                texts = [Line(f"#{clip.numbers[frame]}  {clip.seconds[frame]:.2f} s", FAINT)]
                texts += [Line(marked, WARNING)] if marked else []
                bottoms.append(_put_texts(page, left, bottoms[0], texts, column))
        words = [name, *(clip.views[number - 1].words if number else [])]
        texts = [Line(name), *(Line(text, FAINT) for text in words[1:])]
        bottoms.append(_put_texts(page, GAP, top, texts[:1], MARGIN - GAP))
        top = max(bottoms)
        top = _put_texts(page, GAP + MARGIN, top, texts[1:], width) + GAP
    return top


def _put_heading(page: Page, clip: ClipPictures, top: int, width: int) -> int:
    first, last = clip.seconds.min(), clip.seconds.max()
    count, drawn = len(clip.source), len(shown_frames(len(clip.source)))
    some = f", {drawn} of them drawn" if drawn < count else ""
    parts = [
        *([clip.label] if clip.label else []),
        f"epoch {clip.epoch}",
        f"{count} frames from #{clip.numbers.min()} to #{clip.numbers.max()}{some}",
        f"{first:.2f} s to {last:.2f} s",
    ]
    top = page.put_line(
        GAP, top, Line(shorten_start(clip.key, width, HEADING_SIZE)), size=HEADING_SIZE
    )
    return _put_texts(page, GAP, top, [Line(";  ".join(parts), FAINT)], width) + GAP // 2


def _put_texts(page: Page, left: int, top: int, texts: Sequence[Line], width: int) -> int:
    for text in texts:
        for words in wrap(text.text, width, FONT_SIZE):
            top = page.put_line(left, top, Line(words, text.colour))
    return top


MOVING = (".webp", ".gif", ".png")
"""How the name of a moving picture ends."""

ANIMATION_HEIGHT, ANIMATION_WIDTH, ANIMATION_HEADING = 256, 480, 68
"""In pixels: the largest height and width of the frames, and the room above them for words."""

_NARROWEST_PAGE = 220  # so that there is room for the words
_USUAL_MS = 40  # where a clip does not tell, having one frame


def write_animation(clip: ClipPictures, path: Path) -> None:
    """Write all frames of a clip, each shown as long as in the video; it begins again at its end.

    Args:
        clip: The frames, and one view or several.
        path: Ends in one of MOVING.
    """
    pages = [_page(clip, frame) for frame in range(len(clip.source))]
    options: dict[str, Any] = {}
    if path.suffix.lower() == ".webp":
        options = {"quality": 85, "method": 4}
    first, *others = pages
    first.save(
        path,
        save_all=True,
        append_images=others,
        duration=durations_ms(clip.seconds).tolist(),
        loop=0,
        **options,
    )


def durations_ms(seconds: NDArray[np.float64]) -> NDArray[np.int64]:
    """How long each frame of a clip is shown: to the next one, the last as long as is usual.

    Args:
        seconds: float64 [T], when each begins.

    Returns:
        int64 [T], in milliseconds, in steps of 10 as GIF has them, at least 20.
    """
    steps = np.diff(seconds)
    forward = steps[steps > 0]  # a clip that was too short may hold a frame or begin again
    usual = float(np.median(forward)) if len(forward) else _USUAL_MS / 1000
    steps = np.where(steps > 0, steps, usual)
    hundredths = np.maximum(np.rint(np.append(steps, usual) * 100), 2)
    return np.asarray(10 * hundredths, np.int64)


def _page(clip: ClipPictures, frame: int) -> Image.Image:
    cells = [
        small(strip[frame], ANIMATION_HEIGHT, ANIMATION_WIDTH)
        for strip in (clip.source, *(view.frames for view in clip.views))
    ]
    width = max(sum(cell.width + GAP for cell in cells) - GAP, _NARROWEST_PAGE)
    page, left = Page(), GAP
    marked = clip.marks[frame]
    for cell in cells:
        page.put_picture(left, ANIMATION_HEADING, cell, frame=WARNING if marked else FRAME)
        left += cell.width + GAP
    # The number tells pages apart: equal ones would be taken together, and their times added.
    words = f"{frame + 1}/{len(clip.source)}  #{clip.numbers[frame]}  {clip.seconds[frame]:.2f} s"
    top = page.put_line(GAP, GAP // 2, Line(shorten_start(clip.key, width, FONT_SIZE)))
    for text, colour in ((words, FAINT), (marked, WARNING)):
        if text:
            top = page.put_line(GAP, top, Line(shorten_end(text, width, FONT_SIZE), colour))
    height = ANIMATION_HEADING + max(cell.height for cell in cells) + GAP
    whole = Image.new("RGB", (width + 2 * GAP, height), PAPER)  # all pages have one size
    whole.paste(page.render(), (0, 0))
    return whole
