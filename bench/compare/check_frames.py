"""Check before the measurement that each contestant returns the requested frames."""

from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path

import torch
from torch.nn import functional as F

from bench.baselines.videos import upright
from bench.compare.clips import Clip
from bench.compare.task import Pipeline, Task, Unable
from gpu_aug import Normalize, Recipe, Resize

COLOUR_TOLERANCE = 4 / 255
"""Mean difference of squares of 8 x 8 pixels that different rounding and resizing of colours can cause."""

PIXEL_TOLERANCE = 20 / 255
"""A larger mean difference than another colour matrix causes (up to about 12/255): the pixels belong to other
frames."""

_NUM_CLIPS, _NUM_THREADS = 2, 2
_DISTINCT = 1 / 255  # neighbouring frames that differ less cannot be distinguished
_BLOCK = 8
_MEAN, _STD = (0.45, 0.45, 0.45), (0.225, 0.225, 0.225)


def check_frames(start: Callable[[Task], Pipeline], task: Task) -> str:
    """Let a contestant make a few clips without random operations, and compare them with the videos.

    PyAV decodes the videos from their first frame to the last needed one, so only the frame numbers come from our index.

    Returns:
        A note if colours are converted differently; "" otherwise.

    Raises:
        Unable: The contestant returns other frames, or other pixels.
    """
    recipe = Recipe([Resize(task.recipe.fixed_size), Normalize(_MEAN, _STD)])
    rehearsal = replace(
        task,
        recipe=recipe,
        batch_size=min(_NUM_CLIPS, task.batch_size),
        num_threads=min(_NUM_THREADS, task.num_threads),
        dtype=torch.float32,
    )
    pipeline = start(rehearsal)
    batch = next(pipeline.batches).cpu()
    # A reader that chooses clips by itself reports its choice.
    clips = pipeline.shown() if pipeline.shown else rehearsal.clips.first(rehearsal.batch_size)
    if isinstance(pipeline.batches, Generator):
        pipeline.batches.close()
    if tuple(batch.shape) != rehearsal.shape:
        raise Unable(f"made {list(batch.shape)}, not {list(rehearsal.shape)}")
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (_MEAN, _STD))
    pairs = zip(batch, clips, strict=True)
    worst = max(compare_clip(frames * std + mean, clip) for frames, clip in pairs)
    return f"; colours differ by {255 * worst:.0f}/255" if worst > COLOUR_TOLERANCE else ""


def compare_clip(frames: torch.Tensor, clip: Clip) -> float:
    """Return how much a clip differs from its video.

    Args:
        frames: float32 [T, 3, height, width] in [0, 1], resized.
        clip: The clip with the expected frames.

    Returns:
        The largest mean difference of a frame, computed on means of 8 x 8 pixels.

    Raises:
        Unable: A frame differs by more than PIXEL_TOLERANCE, or a neighbouring frame of the video fits better.
    """
    height, width = frames.shape[-2:]
    around = {number + step for number in clip.frames.tolist() for step in (-1, 0, 1)}
    shown = frames_of(clip.path, around, (height, width))
    worst = 0.0
    for frame, number in zip(frames, clip.frames.tolist(), strict=True):
        what = f"frame {number} of {clip.path.name}"
        right = _difference(frame, shown[number])
        for other in (number - 1, number + 1):
            if other not in shown or _difference(shown[other], shown[number]) < _DISTINCT:
                continue
            if _difference(frame, shown[other]) <= right:
                raise Unable(f"shows frame {other}, or one like it, where it should show {what}")
        # Means of squares, which do not depend on whether resizing was antialiased.
        blocks = _difference(F.avg_pool2d(frame, _BLOCK), F.avg_pool2d(shown[number], _BLOCK))
        if not blocks <= PIXEL_TOLERANCE:
            raise Unable(
                f"differs from {what} by {255 * blocks:.1f}/255, more than {255 * PIXEL_TOLERANCE:.0f}/255"
            )
        worst = max(worst, blocks)
    return worst


def frames_of(path: Path, numbers: set[int], size: tuple[int, int]) -> dict[int, torch.Tensor]:
    """Return some frames of a video by index, decoded from its beginning and resized: float32 [3, height, width]."""
    import av
    from torchvision.transforms.v2.functional import resize

    shown: dict[int, torch.Tensor] = {}
    with av.open(str(path)) as container:
        for number, frame in enumerate(container.decode(video=0)):
            if number in numbers:
                pixels = torch.from_numpy(upright(frame)).permute(2, 0, 1).float() / 255
                shown[number] = resize(pixels, list(size), antialias=True)
            if number >= max(numbers):
                break
    return shown


def _difference(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).abs().mean())
