"""The pictures of a replay as files."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from dali_pipes.preview.pictures import to_pictures, viewable
from gpu_aug import Recipe
from gpu_aug.ops.operation import Operation


def write_pictures(
    canvas: torch.Tensor,
    cuts: Sequence[Operation],
    steps: Iterable[tuple[Operation, torch.Tensor]],
    folder: Path,
) -> None:
    """Write a PNG for each picture, numbered; the images of a clip lie side by side.

    Args:
        canvas: What was decoded.
        cuts: The operations of the decode stage.
        steps: The operations after it, each with the picture that it made.
        folder: Where the files go.
    """
    if canvas.shape[-3] not in (1, 3):
        return
    _write(canvas, [], folder / "00-decoded.png")
    done = list(cuts)
    for number, (operation, image) in enumerate(steps, 1):
        done.append(operation)
        _write(image, done, folder / f"{number:02d}-{type(operation).__name__}.png")


def _write(image: torch.Tensor, done: Sequence[Operation], path: Path) -> None:
    Image.fromarray(_shown(image, done)).save(path)


def _shown(
    image: torch.Tensor, done: Sequence[Operation]
) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Turn images [C, H, W] or [T, C, H, W] into a picture uint8 [H, all widths, 3]; what is no number is black."""
    images = image if image.ndim == 4 else image[None]
    if images.dtype == torch.uint8:
        images = images.float() / 255
    elif not images.is_floating_point():
        images = images.float() / torch.iinfo(images.dtype).max
    images = images.expand(-1, 3, -1, -1)
    return np.concatenate(
        to_pictures((viewable(images, Recipe(done)) if done else images).nan_to_num(0, 1, 0)),
        axis=1,
    )
