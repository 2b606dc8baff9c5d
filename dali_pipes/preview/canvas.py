"""What all previews are drawn with."""

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from gpu_aug import Normalize, Recipe

Picture = NDArray[np.uint8]
"""uint8 [height, width, 3]."""


def viewable(images: torch.Tensor, recipe: Recipe) -> torch.Tensor:
    """Undo Normalize, so that values are in [0, 1] again, as far as they were."""
    for leaf in reversed(recipe.leaves):
        if isinstance(leaf, Normalize):
            mean, std = torch.tensor(leaf.mean), torch.tensor(leaf.std)
            images = images * std.view(-1, 1, 1) + mean.view(-1, 1, 1)
    return images


def to_pictures(images: torch.Tensor) -> list[Picture]:
    """Turn floats [N, 3, height, width] in [0, 1] into uint8 [height, width, 3]."""
    pixels = (images.clamp(0, 1) * 255).round().to(torch.uint8).permute(0, 2, 3, 1)
    return list(pixels.contiguous().numpy())


def small(picture: Picture, height: int, width: int) -> Image.Image:
    """Shrink a picture until it fits; a smaller one stays as it is."""
    image = Image.fromarray(picture)
    scale = min(1.0, height / image.height, width / image.width)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return image if scale == 1 else image.resize(size, Image.Resampling.LANCZOS)
