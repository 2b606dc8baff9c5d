"""Both stages of a recipe on images in memory: what `apply` and transforms have in common.

A Loader decodes straight onto its canvases and calls the same engines; its images other than JPEG files become canvases by
the same `resample`.
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
    """Return the images that a recipe makes, float32 [B, C, H, W] on the device.

    Args:
        recipe: It gives these images one size.
        engine: Its own, on the device.
        images: At least one [H, W, C], as one tensor or several; uint8 or float32.
        draws: Of these images.
        device: The engine's; images may lie elsewhere.
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
    """Carry out the decode stage: one tensor where all canvases have one size, else a list."""
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
    """Return images of several types as float32 in [0, 1]."""
    if len({image.dtype for image in images}) == 1:
        return list(images)
    return [image if image.is_floating_point() else image.float() / 255 for image in images]
