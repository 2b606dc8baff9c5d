"""The decode stage and the batch stage of a recipe on images in memory, for `apply` and for transforms.

A Loader decodes JPEG files straight onto its canvases and calls the same engines; its other images become canvases by the same
`resample`.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from gpu_aug.draws import Draws
from gpu_aug.engines.engine import Engine, Images
from gpu_aug.recipe import Recipe
from gpu_aug.resampling.crop_and_resize import render
from gpu_aug.resampling.crops import cuts_of


def run_stages(
    recipe: Recipe, engine: Engine, images: Images, draws: Draws, device: torch.device
) -> Tensor:
    """Return the images that a recipe makes of images in memory, float32 [B, C, H, W] on the device.

    Args:
        recipe: The recipe; it must give these images one size.
        engine: The engine for this recipe and device.
        images: At least one image [H, W, C], uint8 or float32, as one tensor or several.
        draws: The draws for these images.
        device: The engine's device; the images may lie elsewhere.
    """
    canvases = _render_canvases(recipe, images, draws)
    if isinstance(canvases, Tensor):
        canvases = canvases.to(device)
    else:
        canvases = [canvas.to(device) for canvas in canvases]
    height, width = recipe.size or recipe.result_sizes(draws)[0].tolist()
    out = torch.empty(len(canvases), canvases[0].shape[-1], height, width, device=device)
    engine.run(canvases, draws, out)
    return out


def _render_canvases(recipe: Recipe, images: Images, draws: Draws) -> Images:
    """Return the images after the decode stage: one tensor if all have one size, else a list."""
    if not recipe.decode_operations:
        return images.contiguous() if isinstance(images, Tensor) else _of_one_type(images)
    cuts, channels = cuts_of(draws.crops), images[0].shape[-1]
    canvases: Images
    if recipe.decode_size is not None and len({image.dtype for image in images}) == 1:
        canvases = images[0].new_empty((len(images), *recipe.decode_size, channels))
    else:
        canvases = [
            image.new_empty((*cut.canvas, channels))
            for image, cut in zip(images, cuts, strict=True)
        ]
    for image, cut, canvas in zip(images, cuts, canvases, strict=True):
        render(image, cut, canvas)
    if isinstance(canvases, Tensor):
        return canvases
    alike = _of_one_type(canvases)
    return alike if recipe.decode_size is None else torch.stack(alike)


def _of_one_type(images: Sequence[Tensor]) -> list[Tensor]:
    """Return images of several dtypes as float32 in [0, 1]; images of one dtype are returned unchanged."""
    if len({image.dtype for image in images}) == 1:
        return list(images)
    return [image if image.is_floating_point() else image.float() / 255 for image in images]
