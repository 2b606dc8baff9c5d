"""A clip as a moving picture: before on the left, after on the right."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dali_pipes.preview.canvas import small
from dali_pipes.preview.clips import ClipPictures
from dali_pipes.preview.lettering import shorten_end, shorten_start
from dali_pipes.preview.page import FAINT, FONT_SIZE, FRAME, GAP, PAPER, WARNING, Line, Page

MOVING = (".webp", ".gif", ".png")
"""How the name of a moving picture ends."""

HEIGHT, WIDTH, HEADING = 256, 480, 68
"""In pixels: the largest height and width of the frames, and the room above them for words."""

_NARROWEST = 220  # so that there is room for the words
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
        small(strip[frame], HEIGHT, WIDTH)
        for strip in (clip.source, *(view.frames for view in clip.views))
    ]
    width = max(sum(cell.width + GAP for cell in cells) - GAP, _NARROWEST)
    page, left = Page(), GAP
    marked = clip.marks[frame]
    for cell in cells:
        page.put_picture(left, HEADING, cell, frame=WARNING if marked else FRAME)
        left += cell.width + GAP
    # The number tells pages apart: equal ones would be taken together, and their times added.
    words = f"{frame + 1}/{len(clip.source)}  #{clip.numbers[frame]}  {clip.seconds[frame]:.2f} s"
    top = page.put_line(GAP, GAP // 2, Line(shorten_start(clip.key, width, FONT_SIZE)))
    for text, colour in ((words, FAINT), (marked, WARNING)):
        if text:
            top = page.put_line(GAP, top, Line(shorten_end(text, width, FONT_SIZE), colour))
    height = HEADING + max(cell.height for cell in cells) + GAP
    whole = Image.new("RGB", (width + 2 * GAP, height), PAPER)  # all pages have one size
    whole.paste(page.render(), (0, 0))
    return whole
