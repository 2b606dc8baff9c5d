"""Batches in one call: images of any sizes, or a tensor on any device."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpu_aug.apply import apply_drawn
from gpu_aug.draws import Draws
from gpu_aug.engines.engine import Engine
from gpu_aug.errors import TargetsError
from gpu_aug.recipe import Recipe
from gpu_aug.resampling.crop_and_resize import resample, resize_on_canvas
from gpu_aug.samples import read_sample
from gpu_aug.transform.ahead import Cut, cuts_of
from gpu_aug.transform.pictures import as_pixels, plain_size

Draw = Callable[[NDArray[np.int64]], Draws]
"""Draws for images of sizes (height, width), int64 [B, 2]."""


def run_images(
    recipe: Recipe, engine: Engine, images: Sequence[Any], draw: Draw
) -> tuple[Tensor, Draws]:
    """Augment images of any sizes and kinds on the CPU, float32 [B, 3, H, W]; also return their draws."""
    plain = [plain_size(image) for image in images]
    if None in plain or recipe.decode_size is None or recipe.temporal_operations:
        return _run_any(recipe, engine, images, draw)
    draws = draw(np.array(plain, np.int64))
    canvases = np.empty((len(images), *recipe.decode_size, 3), np.uint8)
    for image, cut, canvas in zip(images, cuts_of(draws.crops), canvases, strict=True):
        render(as_pixels(image), cut, canvas)
    out = torch.empty(len(images), 3, *recipe.fixed_size, memory_format=torch.channels_last)
    engine.run(torch.from_numpy(canvases), draws, out)
    return out, draws


def render(
    pixels: NDArray[np.uint8], cut: Cut, canvas: NDArray[np.uint8] | None = None
) -> NDArray[np.uint8]:
    """Carry out a decode stage; without a canvas a cut that needs no more is a view."""
    (top, left), (height, width) = cut.start, cut.shape
    seen = pixels[top : top + height, left : left + width]
    if cut.is_plain and canvas is None:
        return seen
    canvas = np.empty((*cut.canvas, 3), np.uint8) if canvas is None else canvas
    if cut.is_plain:
        canvas[...] = seen
    else:
        resize_on_canvas(seen, cut.resize, cut.paste, canvas, antialias=cut.antialias)
    return canvas


def _run_any(
    recipe: Recipe, engine: Engine, images: Sequence[Any], draw: Draw
) -> tuple[Tensor, Draws]:
    samples = [{"image": image} for image in images]
    read = [read_sample(sample, number) for number, sample in enumerate(samples)]
    sizes = np.array([one.size for one in read], np.int64)
    draws = draw(sizes)
    results = apply_drawn(recipe, samples, read, draws, engine, torch.device("cpu"))
    return torch.stack([result["image"] for result in results]), draws


def run_batch(recipe: Recipe, engine: Engine, images: Tensor, draw: Draw) -> tuple[Tensor, Draws]:
    """Augment a batch [B, 3, H, W], uint8 or float in [0, 1], on its device; also return its draws.

    Raises:
        TargetsError: It is no such batch.
    """
    if images.shape[1] != 3 or not (images.dtype == torch.uint8 or images.is_floating_point()):
        dtype = str(images.dtype).removeprefix("torch.")
        raise TargetsError(
            f"a batch must be uint8 or float in [0, 1] [B, 3, H, W], got {dtype} {list(images.shape)}"
        )
    count, _, height, width = images.shape
    sizes = np.tile(np.array([height, width], np.int64), (count, 1))
    draws = draw(sizes)
    pixels = images.permute(0, 2, 3, 1)
    if pixels.is_floating_point():
        pixels = pixels.float()
    elif images.device.type != "cpu" and recipe.decode_operations:
        pixels = pixels.float() / 255  # antialiased resizing of uint8 is the CPU's alone
    out = torch.empty(count, 3, *recipe.fixed_size, device=images.device)
    engine.run(_decoded(recipe, pixels, draws), draws, out)
    return out, draws


def _decoded(recipe: Recipe, pixels: Tensor, draws: Draws) -> Tensor | list[Tensor]:
    """Carry out the decode stage on [B, H, W, 3]."""
    if not recipe.decode_operations:
        return pixels.contiguous()
    canvases = []
    for row, canvas in enumerate(draws.crops.canvas.tolist()):
        out = pixels.new_empty((*canvas, 3))
        resample(pixels[row], draws.crops, row, out)
        canvases.append(out)
    return canvases if recipe.decode_size is None else torch.stack(canvases)
