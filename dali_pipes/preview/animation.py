"""A clip as a moving picture: before on the left, after on the right."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from dali_pipes.preview.canvas import INK, PAPER, shortened, small
from dali_pipes.preview.clips import ClipPictures

MOVING = (".webp", ".gif", ".png")
"""How the name of a moving picture ends."""

HEIGHT, WIDTH, GAP, HEADING = 256, 480, 6, 24
"""In pixels: the largest height and width of the frames, the gap between them, and the room above them for words."""

_FONT_SIZE = 13
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
    cells = [small(strip[frame], HEIGHT, WIDTH) for strip in (clip.source, *clip.views)]
    width = sum(cell.width for cell in cells) + GAP * (len(cells) - 1)
    page = Image.new("RGB", (width, HEADING + max(cell.height for cell in cells)), PAPER)
    font = ImageFont.load_default(_FONT_SIZE)
    # The number tells pages apart: equal ones would be taken together, and their times added.
    words = f"{frame + 1}/{len(clip.source)}  #{clip.numbers[frame]}  {clip.seconds[frame]:.2f} s"
    pen = ImageDraw.Draw(page)
    room = int(width - font.getlength(words) - 3 * GAP)
    pen.text((GAP, 4), words, INK, font)
    key = shortened(clip.key, max(room, 0), font) if room > 40 else ""
    pen.text((width - GAP - font.getlength(key), 4), key, INK, font)
    left = 0
    for cell in cells:
        page.paste(cell, (left, HEADING))
        left += cell.width + GAP
    return page
