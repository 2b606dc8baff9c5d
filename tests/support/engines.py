"""What the tests of engines have in common: pictures, what is drawn for them, and what an engine makes of both."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from gpu_aug import Draws, ImageKind, Recipe, compile_engine

CPU = torch.device("cpu")
ENGINES = ("kornia", "albumentations", "fused")


def noise(num: int, size: tuple[int, ...], seed: int = 0) -> torch.Tensor:
    """Return random pixels, uint8 [num, *size, 3]."""
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.integers(0, 256, (num, *size, 3), dtype=np.uint8))


def photographs(paths: Sequence[Path], size: tuple[int, int]) -> torch.Tensor:
    """Return photographs at a small size, uint8 [number of paths, *size, 3]."""
    small = [Image.open(path).convert("RGB").resize(size[::-1]) for path in paths]
    return torch.from_numpy(np.stack([np.asarray(one) for one in small]))


def planar(images: torch.Tensor) -> torch.Tensor:
    """Return uint8 images [B, H, W, 3] as an engine passes them on: float32 [B, 3, H, W] in [0, 1]."""
    return images.permute(0, 3, 1, 2).float() / 255


def draw_for(recipe: Recipe, images: Any, seed: int = 1, epoch: int = 0) -> Draws:
    """Return the draws of images, [B, H, W, C] or a list of them, whose indices count from 0.

    Crops that look at boxes see one in the middle of each image.
    """
    sizes = np.array([image.shape[:2] for image in images], np.int64).reshape(-1, 2)
    boxes = [[(0.3 * width, 0.4 * height, 0.7 * width, 0.6 * height)] for height, width in sizes]
    return recipe.draw(seed, epoch, np.arange(len(images)), sizes, boxes=boxes)


def empty_output(
    num: int,
    size: Sequence[int],
    *,
    dtype: torch.dtype = torch.float32,
    layout: torch.memory_format = torch.contiguous_format,
    device: torch.device = CPU,
    channels: int = 3,
) -> torch.Tensor:
    """Return memory for results, [num, channels, *size], in which a missing value can be seen."""
    out = torch.empty((num, channels, *size), dtype=dtype, device=device, memory_format=layout)
    return out.fill_(77 if dtype == torch.uint8 else torch.nan)


def render(
    engine: str,
    recipe: Recipe,
    images: Any,
    draws: Draws | None = None,
    *,
    device: torch.device = CPU,
    exact: bool = False,
    kind: ImageKind = ImageKind(),  # noqa: B008 - it is frozen
    **output: Any,
) -> Any:
    """Return what an engine makes of images: a tensor [B, C, H, W], or a list of [C, H, W] where sizes can differ.

    Args:
        engine: Its name.
        recipe: The recipe; the images are those after its decode stage.
        images: uint8 or float [B, H, W, C], or a list of [H, W, C].
        draws: Without them, those of `draw_for`.
        device: Where the engine runs; the result comes to the CPU.
        exact: See `compile_engine`.
        kind: What images are.
        output: What `empty_output` takes.
    """
    compiled = compile_engine(engine, recipe, device=device, exact=exact, kind=kind)  # type: ignore[arg-type]
    draws = draw_for(recipe, images) if draws is None else draws
    output = {"device": device, "channels": kind.channels, **output}
    images = images.to(device) if isinstance(images, torch.Tensor) else images
    if recipe.size is not None:
        out = empty_output(len(images), recipe.size, **output)
        compiled.run(images, draws, out)
        return out.cpu()
    return render_groups(compiled, recipe, images, draws, **output)


def render_groups(
    compiled: Any, recipe: Recipe, images: Any, draws: Draws, **output: Any
) -> list[torch.Tensor]:
    """Return the results of one group of mixed images after the other, each at the size that its draws give."""
    results: list[torch.Tensor] = []
    for start in range(0, len(images), recipe.group):
        rows = slice(start, start + recipe.group)
        own = draws.rows(rows.start, rows.stop)
        out = empty_output(len(images[rows]), recipe.result_sizes(own)[0].tolist(), **output)
        compiled.run(images[rows], own, out)
        results += list(out.cpu())
    return results
