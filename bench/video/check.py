"""A check, before the clock runs, that each contestant returns the requested frames."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from bench.compare.contestant import Handy, Unable
from bench.video.plan import Clip, ClipFooting
from gpu_aug import Normalize, Recipe, Resize
from readers.video.info import UNSPECIFIED_MATRIX

TOLERANCE = 4 / 255
"""Mean difference of squares of 8 x 8 pixels that is due to how libraries make and resize colours."""

_NUM_CLIPS, _NUM_THREADS = 2, 2
_DISTINCT = 1 / 255  # neighbouring frames that differ less cannot be told apart
_BLOCK = 8
_BT601 = 5
_MEAN, _STD = (0.45, 0.45, 0.45), (0.225, 0.225, 0.225)


def check_frames(enter: Callable[[ClipFooting], Handy], footing: ClipFooting) -> None:
    """Let a contestant make a few clips without anything random, and compare them with the videos.

    The videos are decoded by PyAV from their first frame to the last one that is wanted, so nothing is
    taken from our index but the numbers of the frames.

    Raises:
        Unable: It shows other frames, or other pixels.
    """
    recipe = Recipe([Resize(footing.recipe.fixed_size), Normalize(_MEAN, _STD)])
    rehearsal = replace(
        footing,
        recipe=recipe,
        batch_size=min(_NUM_CLIPS, footing.batch_size),
        num_threads=min(_NUM_THREADS, footing.num_threads),
        dtype=torch.float32,
    )
    contestant = enter(rehearsal)
    try:
        contestant.open()
        if contestant.kind == "ceiling":
            return
        batch = contestant.next_batch().cpu()
        # A reader that chooses by itself says what it chose.
        asked = rehearsal.plan.first(rehearsal.batch_size)
        clips: Sequence[Clip] = getattr(contestant, "shown", asked)
    finally:
        contestant.close()
    if tuple(batch.shape) != rehearsal.shape:
        raise Unable(f"made {list(batch.shape)}, not {list(rehearsal.shape)}")
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (_MEAN, _STD))
    for frames, clip in zip(batch, clips, strict=True):
        compare_clip(frames * std + mean, clip)


def compare_clip(frames: torch.Tensor, clip: Clip) -> None:
    """Compare a clip with its video.

    Args:
        frames: float32 [T, 3, height, width] in [0, 1], resized.
        clip: Says which frames these should be.

    Raises:
        Unable: A frame differs by more than TOLERANCE, or its neighbour in the video fits better.
    """
    height, width = frames.shape[-2:]
    around = {number + step for number in clip.frames.tolist() for step in (-1, 0, 1)}
    shown = _frames_of(clip, around, (height, width))
    for frame, number in zip(frames, clip.frames.tolist(), strict=True):
        what = f"frame {number} of {clip.path.name}"
        right = _difference(frame, shown[number])
        for other in (number - 1, number + 1):
            if other not in shown or _difference(shown[other], shown[number]) < _DISTINCT:
                continue
            if _difference(frame, shown[other]) <= right:
                raise Unable(f"shows frame {other}, or one like it, where it should show {what}")
        blocks = _difference(_coarse(frame), _coarse(shown[number]))
        if not blocks <= TOLERANCE:
            raise Unable(
                f"differs from {what} by {255 * blocks:.1f}/255, more than {255 * TOLERANCE:.0f}/255"
            )


def _frames_of(clip: Clip, numbers: set[int], size: tuple[int, int]) -> dict[int, torch.Tensor]:
    """Decode a video from its beginning, and resize some frames with torchvision."""
    import av
    from torchvision.transforms.v2.functional import resize

    shown: dict[int, torch.Tensor] = {}
    with av.open(str(clip.path)) as container:
        for number, frame in enumerate(container.decode(video=0)):
            if number in numbers:
                pixels = torch.from_numpy(_upright(frame)).permute(2, 0, 1).float() / 255
                shown[number] = resize(pixels, list(size), antialias=True)
            if number >= max(numbers):
                break
    return shown


def _upright(frame: Any) -> NDArray[np.uint8]:
    matrix = int(frame.colorspace)
    rgb = frame.reformat(
        format="rgb24", src_colorspace=_BT601 if matrix == UNSPECIFIED_MATRIX else matrix
    ).to_ndarray()
    return np.ascontiguousarray(np.rot90(rgb, round(frame.rotation / 90)))


def _difference(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).abs().mean())


def _coarse(picture: torch.Tensor) -> torch.Tensor:
    """Means of squares, in which it does not show whether resizing was antialiased."""
    return F.avg_pool2d(picture, _BLOCK)
