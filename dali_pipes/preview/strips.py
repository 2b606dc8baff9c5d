"""Clips laid out as strips of frames."""

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from dali_pipes.preview.canvas import FONT_SIZE, INK, PAPER, shortened, small
from dali_pipes.preview.clips import ClipPictures

NUM_SHOWN = 8
"""Frames of a strip; of longer clips so many are taken, evenly spread, the first and the last among them."""

HEIGHT, WIDTH = 160, 216
"""Largest height and width of a frame that is drawn, in pixels; smaller ones stay as they are."""

MARGIN, GAP, HEADING, CAPTION = 84, 4, 34, 20
"""To the left for words; between frames; above each clip; under the source frames."""

_FAINT = (150, 150, 150)
_SMALL = 12


def render_strips(clips: Sequence[ClipPictures]) -> Image.Image:
    """Draw a block for each clip: its key, its frames with their numbers and times, and every view."""
    blocks = [_block(clip) for clip in clips]
    width = max(block.width for block in blocks)
    canvas = Image.new("RGB", (width, sum(block.height for block in blocks)), PAPER)
    top = 0
    for block in blocks:
        canvas.paste(block, (0, top))
        top += block.height
    return canvas


def shown_frames(num_frames: int) -> list[int]:
    """Which frames of a clip are drawn."""
    count = min(NUM_SHOWN, num_frames)
    return [int(frame) for frame in np.linspace(0, num_frames - 1, count).round()]


def _block(clip: ClipPictures) -> Image.Image:
    frames = shown_frames(len(clip.source))
    strips = [
        [small(strip[frame], HEIGHT, WIDTH) for frame in frames]
        for strip in (clip.source, *clip.views)
    ]
    column = max(strip[0].width for strip in strips) + GAP
    heights = [strip[0].height for strip in strips]
    size = (
        MARGIN + len(frames) * column,
        HEADING + CAPTION + sum(height + GAP for height in heights) + 2 * GAP,
    )
    canvas = Image.new("RGB", size, PAPER)
    pen = ImageDraw.Draw(canvas)
    _heading(pen, clip, size[0])
    top = HEADING
    for line, strip in enumerate(strips):
        _words(pen, clip, line, top)
        for number, image in enumerate(strip):
            left = MARGIN + number * column
            canvas.paste(image, (left, top))
            if line == 0:
                _caption(pen, clip, frames[number], (left, top + image.height))
        top += heights[line] + GAP + (CAPTION if line == 0 else 0)
    return canvas


def _heading(pen: ImageDraw.ImageDraw, clip: ClipPictures, width: int) -> None:
    font = ImageFont.load_default(FONT_SIZE)
    first, last = clip.seconds[0], clip.seconds[-1]
    count, drawn = len(clip.source), len(shown_frames(len(clip.source)))
    some = f", {drawn} of them drawn" if drawn < count else ""
    parts = [
        *([clip.label] if clip.label else []),
        f"{count} frames from {clip.numbers[0]} to {clip.numbers[-1]}{some}",
        f"{first:.2f} s to {last:.2f} s",
    ]
    words = "   ".join(parts)
    room = width - 3 * GAP - font.getlength(words) - 20
    key = shortened(clip.key, int(max(room, 40)), font)
    pen.text((2 * GAP, 2 * GAP), key, INK, font)
    pen.text((2 * GAP + font.getlength(key) + 20, 2 * GAP), words, _FAINT, font)


def _words(pen: ImageDraw.ImageDraw, clip: ClipPictures, line: int, top: int) -> None:
    many = len(clip.views) > 1
    words = "source" if line == 0 else f"view {line}" if many else "augmented"
    pen.text((2 * GAP, top), words, INK, ImageFont.load_default(_SMALL + 1))


def _caption(
    pen: ImageDraw.ImageDraw, clip: ClipPictures, frame: int, corner: tuple[int, int]
) -> None:
    text = f"#{clip.numbers[frame]}  {clip.seconds[frame]:.2f} s"
    pen.text((corner[0], corner[1] + 2), text, _FAINT, ImageFont.load_default(_SMALL))
