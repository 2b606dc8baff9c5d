"""Arrange clips as strips of frames, and write them as animations."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dali_pipes.preview.clips import ClipPictures
from dali_pipes.preview.page import (
    FAINT,
    NARROWEST,
    Cell,
    Line,
    Preview,
    Row,
    draw_text,
    join,
)
from dali_pipes.preview.pictures import fit

NUM_SHOWN = 8
"""Largest count of frames in a strip; for longer clips they are spread evenly from the first to the last frame."""

HEIGHT, WIDTH = 160, 216
"""Largest height and width of a frame in a strip, in pixels; much smaller frames are enlarged."""


def render_strips(clips: Sequence[ClipPictures], heading: Sequence[str] = ()) -> Preview:
    """Draw a block for each clip, with its key, its frames with numbers and times, and every view.

    Args:
        clips: Clips of any epochs.
        heading: Texts above the blocks.
    """
    return Preview([row for clip in clips for row in _block(clip)], heading)


def shown_frames(num_frames: int) -> list[int]:
    """Return the indices of the clip's frames that a strip shows."""
    count = min(NUM_SHOWN, num_frames)
    return [int(frame) for frame in np.linspace(0, num_frames - 1, count).round()]


def _block(clip: ClipPictures) -> list[Row]:
    """Return the rows of the page that show a clip: a title, the original frames, and the frames of each view."""
    frames = shown_frames(len(clip.source))
    facts = [clip.label, f"epoch {clip.epoch}", f"{len(frames)} of {len(clip.source)} frames"]
    title = [Line(clip.key), *(Line(fact, FAINT) for fact in facts)]
    source = [
        Cell(fit(clip.source[frame], (HEIGHT, WIDTH)), [_frame_line(clip, frame)])
        for frame in frames
    ]
    rows = [Row(source, title)]
    for view in clip.views:
        cells = [Cell(fit(view.frames[frame], (HEIGHT, WIDTH))) for frame in frames]
        rows.append(Row(cells, [Line(view.name), *(Line(text, FAINT) for text in view.words)]))
    return rows


def _frame_line(clip: ClipPictures, frame: int) -> Line:
    """Return a text with the index and the time of a frame."""
    return Line(f"#{clip.numbers[frame]}  {clip.seconds[frame]:.2f} s", FAINT)


MOVING = (".webp", ".gif", ".png")
"""File name extensions of animations."""

ANIMATION_ROOM = (256, 480)
"""Largest height and width of the frames of an animation, in pixels."""

_USUAL_MS = 40  # duration for a clip with a single frame, as at 25 frames per second


def write_animation(clip: ClipPictures, path: Path) -> None:
    """Write all frames of a clip as an endless animation; each frame is shown as long as in the video.

    Args:
        clip: The clip, with one or several views.
        path: The file; its extension is one of MOVING.
    """
    pages = [_page(clip, frame) for frame in range(len(clip.source))]
    first, *others = pages
    first.save(
        path,
        save_all=True,
        append_images=others,
        duration=durations_ms(clip.seconds).tolist(),
        loop=0,
        quality=85,  # for WebP, like `method`, whose default is the fastest one; other formats ignore both
        method=4,
    )


def durations_ms(seconds: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the duration of each frame of a clip: until the next frame; for the last frame the median.

    Args:
        seconds: float64 [T], start time of each frame.

    Returns:
        int64 [T], in milliseconds, multiples of 10 (GIF's resolution), at least 20.
    """
    steps = np.diff(seconds)
    forward = steps[steps > 0]  # padding repeats a frame or jumps back
    usual = float(np.median(forward)) if len(forward) else _USUAL_MS / 1000
    steps = np.where(steps > 0, steps, usual)
    hundredths = np.maximum(np.rint(np.append(steps, usual) * 100), 2)
    return np.asarray(10 * hundredths, np.int64)


def _page(clip: ClipPictures, frame: int) -> Image.Image:
    """Draw a frame before and after augmentation, with its number and time below."""
    strips = [clip.source, *(view.frames for view in clip.views)]
    pictures = join([fit(strip[frame], ANIMATION_ROOM) for strip in strips], across=True)
    # Short lines keep all pages at one size. The count makes pages different: Pillow merges equal frames, and adds their durations.
    count = Line(f"{frame + 1}/{len(clip.source)}", FAINT)
    lines = [Line(clip.key), count, _frame_line(clip, frame)]
    return join([pictures, draw_text(lines, max(NARROWEST, pictures.width))])
