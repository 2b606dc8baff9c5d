"""Pictures whose pixels tell where their object is, to see that masks and boxes moved with the image."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes import Batch, Loader
from gpu_aug import BoxParams, HorizontalFlip, RandomResizedCrop, Recipe

RECIPE = Recipe(
    [RandomResizedCrop(64, scale=(0.5, 0.9)), HorizontalFlip(1)],
    boxes=BoxParams(clip=True, keep_empty=True),
)


def block(size: tuple[int, int], box: tuple[int, int, int, int]) -> NDArray[np.uint8]:
    """A white box (x, y, x, y) on black: uint8 [height, width]."""
    picture = np.zeros(size, np.uint8)
    picture[box[1] : box[3], box[0] : box[2]] = 255
    return picture


def moved_batch(dataset: Any, **options: Any) -> Batch:
    """The whole dataset in one batch, cropped and mirrored."""
    fixed = {"device": "cpu", "decoder": "cpu", "shuffle": "none", "seed": 5}
    [batch] = Loader(dataset, RECIPE, batch_size=len(dataset), **fixed, **options)
    return batch


def share_that_fits(images: torch.Tensor, masks: torch.Tensor) -> float:
    """The share of pixels where a mask (0 or not) says what the picture shows."""
    return float(((images[:, 0] > 0.5) == (masks > 0)).float().mean())


def assert_masks_fit(images: torch.Tensor, masks: torch.Tensor) -> None:
    """Masks, bool or integers [B, H, W], lie on the white; mirrored back they would not."""
    assert share_that_fits(images, masks) > 0.97
    assert share_that_fits(images, masks.flip(-1)) < 0.95


def assert_boxes_fit(images: torch.Tensor, boxes: list[torch.Tensor]) -> None:
    """The first box of each image is the extent of the white, to a pixel; mirrored back it would not be."""
    mirrored = 0.0
    for image, of_image in zip(images, boxes, strict=True):
        rows, columns = torch.nonzero(image[0] > 0.5, as_tuple=True)
        seen = torch.tensor([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])
        assert (of_image[0] - seen).abs().max() <= 1.5
        back = of_image[0][[2, 1, 0, 3]] * torch.tensor([-1, 1, -1, 1])
        back += torch.tensor([image.shape[-1], 0, image.shape[-1], 0])
        mirrored = max(mirrored, float((back - seen).abs().max()))
    assert mirrored > 3
