"""Lay clips out as strips of frames, and write them as moving pictures."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dali_pipes.preview.clips import ClipPictures
from dali_pipes.preview.page import (
    FAINT,
    FRAME,
    HEADING_SIZE,
    WARNING,
    Cell,
    Line,
    Page,
    Row,
    lay_out,
)
from dali_pipes.preview.pictures import fit

NUM_SHOWN = 8
"""Frames of a strip; of longer clips this many, evenly spread from the first to the last."""

HEIGHT, WIDTH = 160, 216
"""Largest height and width of a frame in a strip, in pixels; much smaller frames are enlarged."""

_NARROWEST = 104  # pixels of a column, which leaves room for a frame's number and time


def render_strips(clips: Sequence[ClipPictures], heading: Sequence[str] = ()) -> Page:
    """Draw a block for each clip: its key, its frames with their numbers and times, and every view.

    Args:
        clips: Clips of any epochs.
        heading: Texts above the blocks.
    """
    rows = [row for clip in clips for row in _block(clip)]
    return lay_out(rows, heading, narrowest=_NARROWEST)


def shown_frames(num_frames: int) -> list[int]:
    """Return the numbers of the frames of a clip that a strip shows."""
    count = min(NUM_SHOWN, num_frames)
    return [int(frame) for frame in np.linspace(0, num_frames - 1, count).round()]


def _block(clip: ClipPictures) -> list[Row]:
    """Return the rows of a clip."""
    count, frames = len(clip.source), shown_frames(len(clip.source))
    some = f", {len(frames)} of them drawn" if len(frames) < count else ""
    parts = [
        *([clip.label] if clip.label else []),
        f"epoch {clip.epoch}",
        f"{count} frames from #{clip.numbers.min()} to #{clip.numbers.max()}{some}",
        f"{clip.seconds.min():.2f} s to {clip.seconds.max():.2f} s",
    ]
    rows = [Row(above=[Line(clip.key, size=HEADING_SIZE), Line(";  ".join(parts), FAINT)])]
    for name, strip, words in [
        ("source", clip.source, ()),
        *((view.name, view.frames, view.words) for view in clip.views),
    ]:
        cells = []
        for frame in frames:
            mark = clip.marks[frame]
            time = f"#{clip.numbers[frame]}  {clip.seconds[frame]:.2f} s"
            caption = [Line(time, FAINT), Line(mark, WARNING)] if strip is clip.source else []
            picture, _ = fit(strip[frame], (HEIGHT, WIDTH))
            cells.append(Cell(picture, caption, WARNING if mark else FRAME))
        rows.append(Row(cells, [name], below=[Line(text, FAINT) for text in words]))
    return rows


MOVING = (".webp", ".gif", ".png")
"""File name extensions of moving pictures."""

ANIMATION_ROOM = (256, 480)
"""Largest height and width of the frames of a moving picture, in pixels."""

_USUAL_MS = 40  # of a clip with a single frame, as at 25 frames per second


def write_animation(clip: ClipPictures, path: Path) -> None:
    """Write all frames of a clip as an endless animation, each shown as long as in the video.

    Args:
        clip: The clip, with one view or several.
        path: Its extension is one of MOVING.
    """
    pages = [_page(clip, frame) for frame in range(len(clip.source))]
    width, height = (max(sides) for sides in zip(*(page.size for page in pages), strict=True))
    # All pages need one size, though some have more words.
    first, *others = (page.render((width, height)) for page in pages)
    first.save(
        path,
        save_all=True,
        append_images=others,
        duration=durations_ms(clip.seconds).tolist(),
        loop=0,
        quality=85,  # of WebP, like `method`, which by default is the fastest; other formats ignore both
        method=4,
    )


def durations_ms(seconds: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return how long each frame of a clip is shown: until the next one, the last for the median time.

    Args:
        seconds: float64 [T], when each frame begins.

    Returns:
        int64 [T], in milliseconds, in steps of 10 as GIF has them, at least 20.
    """
    steps = np.diff(seconds)
    forward = steps[steps > 0]  # padding holds a frame or begins again
    usual = float(np.median(forward)) if len(forward) else _USUAL_MS / 1000
    steps = np.where(steps > 0, steps, usual)
    hundredths = np.maximum(np.rint(np.append(steps, usual) * 100), 2)
    return np.asarray(10 * hundredths, np.int64)


def _page(clip: ClipPictures, frame: int) -> Page:
    mark = clip.marks[frame]
    pictures = [
        fit(strip[frame], ANIMATION_ROOM)[0]
        for strip in (clip.source, *(view.frames for view in clip.views))
    ]
    # The number makes pages different: Pillow merges equal ones, and adds their durations.
    words = f"{frame + 1}/{len(clip.source)}  #{clip.numbers[frame]}  {clip.seconds[frame]:.2f} s"
    below = [Line(clip.key), Line(words, FAINT), Line(mark, WARNING)]
    cells = [Cell(picture, frame=WARNING if mark else FRAME) for picture in pictures]
    return lay_out([Row(cells, below=below)], narrowest=0)
