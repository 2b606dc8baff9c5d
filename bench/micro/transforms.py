"""Single images as a dataset's ``__getitem__`` augments them: our transforms and those of other libraries."""

from itertools import cycle
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console

from bench.micro.turns import Turns, Work, take_turns
from bench.output.text import result_table
from gpu_aug import ColorJitter, HorizontalFlip, Normalize, RandomCrop, RandomResizedCrop, Recipe

LIBRARIES = (
    *("ours, array", "ours, Pillow", "ours, tensor"),
    *("Albumentations, array", "torchvision, Pillow", "torchvision, tensor"),
)
MEANING = (
    "microseconds per image, median of the turns, on one CPU thread, in memory: recipe.transform() of ours and the "
    "pipelines of others, each call with a draw of its own. chain is crop, resize, flip, colour jitter, normalise; "
    "its last row has images of many sizes."
)
CHAINS = ("flip", "crop, flip", "chain", "chain, many sizes")
_JITTER = (0.4, 0.4, 0.4, 0.1)
_NUM_SIZES = 32


def measure_transforms(
    image: NDArray[np.uint8], *, turns: int, seconds: float
) -> dict[str, dict[str, Turns]]:
    """Time chains of operations on one image at a time.

    Args:
        image: uint8 [side, side, 3].
        turns: Turns per cell.
        seconds: Per turn.
    """
    measured = {}
    for name in CHAINS:
        images = _many_sizes(image) if name.endswith("many sizes") else [image]
        works = _works(name.partition(", many")[0], images, max(image.shape[0] * 7 // 8, 1))
        for work in works.values():
            work()
        measured[name] = take_turns(works, turns=turns, seconds=seconds, finish=lambda: None)
    return measured


def show_transforms(measured: dict[str, dict[str, Turns]], side: int, console: Console) -> None:
    """Print a row for every chain."""
    table = result_table(f"one image of {side}x{side}", MEANING, "chain", *LIBRARIES)
    for name, cells in measured.items():
        table.add_row(
            name,
            *(f"{cells[one].median * 1e6:.0f}" if one in cells else "-" for one in LIBRARIES),
        )
    console.print(table)


def _works(name: str, images: list[NDArray[np.uint8]], size: int) -> dict[str, Work]:
    from PIL import Image

    recipe, albumentations, on_pillow, on_tensor = _pipelines(name, size)
    pillow = [Image.fromarray(image) for image in images]
    tensors = [torch.from_numpy(image).permute(2, 0, 1).contiguous() for image in images]

    def by_turns(transform: Any, given: list[Any]) -> Work:
        following = cycle(given)
        return lambda: transform(next(following))

    return {
        "ours, array": by_turns(recipe.transform(seed=0), images),
        "ours, Pillow": by_turns(recipe.transform(seed=0), pillow),
        "ours, tensor": by_turns(recipe.transform(seed=0), tensors),
        "Albumentations, array": by_turns(lambda image: albumentations(image=image), images),
        "torchvision, Pillow": by_turns(on_pillow, pillow),
        "torchvision, tensor": by_turns(on_tensor, tensors),
    }


def _pipelines(name: str, size: int) -> tuple[Recipe, Any, Any, Any]:
    """Return a chain as ours, Albumentations', and torchvision's for Pillow images and for tensors."""
    import albumentations as al
    from torchvision.transforms import v2

    if name == "flip":
        flip = v2.RandomHorizontalFlip(1.0)
        return Recipe([HorizontalFlip(1.0)]), al.Compose([al.HorizontalFlip(p=1.0)]), flip, flip
    if name == "crop, flip":
        both = v2.Compose([v2.RandomCrop(size), v2.RandomHorizontalFlip()])
        recipe = Recipe([RandomCrop(size), HorizontalFlip()])
        return recipe, al.Compose([al.RandomCrop(size, size), al.HorizontalFlip()]), both, both
    recipe = Recipe([RandomResizedCrop(size), HorizontalFlip(), ColorJitter(*_JITTER), Normalize()])
    augment = al.Compose(
        [
            al.RandomResizedCrop((size, size)),
            al.HorizontalFlip(),
            al.ColorJitter(*_JITTER, p=1),
            al.Normalize(),
        ]
    )
    change = [v2.RandomResizedCrop(size), v2.RandomHorizontalFlip(), v2.ColorJitter(*_JITTER)]
    finish = [
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ]
    on_pillow = v2.Compose([*change, v2.ToImage(), *finish])
    return recipe, augment, on_pillow, v2.Compose([*change, *finish])


def _many_sizes(image: NDArray[np.uint8]) -> list[NDArray[np.uint8]]:
    """Parts of an image, no two of one size."""
    height, width = image.shape[:2]
    return [
        np.ascontiguousarray(image[: max(height - number, 1), : max(width - 2 * number, 1)])
        for number in range(min(_NUM_SIZES, width // 4))
    ]
