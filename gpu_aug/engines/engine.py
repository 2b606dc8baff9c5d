"""Engine: what carries out the batch stage of a recipe, and how one is chosen by name."""

import sys
from collections.abc import Sequence
from itertools import takewhile
from typing import Literal, Protocol

import torch

from gpu_aug.draws import Draws
from gpu_aug.errors import EngineError
from gpu_aug.ops import Normalize, Operation
from gpu_aug.ops.foreign.foreign import BatchFunction
from gpu_aug.recipe import Recipe

EngineName = Literal["kornia", "albumentations", "fused"]
EngineChoice = Literal["auto", "fused", "kornia", "albumentations"]

Images = torch.Tensor | Sequence[torch.Tensor]
"""[b, H, W, 3], or b images [H, W, 3] of sizes of their own: uint8, or float32 in [0, 1]."""


class Engine(Protocol):
    """The batch stage of one recipe, ready to run on one device.

    Values are float32 in [0, 1] until Normalize. ``run`` may be called from several threads at
    once; an engine keeps no state between calls.

    Example:
        >>> recipe = Recipe([RandomResizedCrop(32), HorizontalFlip(), Normalize()])
        >>> engine = compile_engine("fused", recipe, device=torch.device("cpu"))
        >>> draws = recipe.draw(0, 0, np.arange(2), np.array([[48, 64]] * 2))
        >>> out = torch.empty(2, 3, 32, 32)
        >>> engine.run(torch.zeros(2, 32, 32, 3, dtype=torch.uint8), draws, out)   # decoded crops
        >>> out.amin().item()                                                      # black, normalised
        -2.11...
    """

    name: str

    def run(self, images: Images, draws: Draws, out: torch.Tensor) -> None:
        """Carry out the batch stage.

        Args:
            images: [b, H, W, 3], uint8 or float32 in [0, 1], of the recipe's decode size,
                contiguous, on the engine's device; where that size is None, a sequence of b images
                [H, W, 3]. Not written to.
            draws: The draws of these b samples. For a recipe that mixes images, b is any number
                of whole groups of neighbouring positions.
            out: [b, 3, H', W'] of the recipe's size (of the image's, where that is None; b is 1) on
                the same device, in any memory format. All of it is written. A floating dtype gets the values; uint8 gets
                ``round(255 * value)`` clamped, which makes sense without Normalize only.
        """
        ...


def best_engine(device: torch.device) -> EngineName:
    """Return the name that "auto" stands for: the fastest where it was measured, on a CPU; else Kornia."""
    return "fused" if device.type == "cpu" else "kornia"


def compile_engine(
    name: EngineChoice, recipe: Recipe, *, device: torch.device, exact: bool = False
) -> Engine:
    """Prepare an engine for a recipe.

    Args:
        name: Which one; "auto" is ``best_engine(device)``.
        recipe: The recipe.
        device: Where images are.
        exact: Whether warps that follow each other are resampled one by one. Only "fused" makes one of them
            otherwise; the other engines always keep operations apart.

    Raises:
        EngineError: The name is unknown, the package is missing, the device is not supported,
            or an operation cannot be carried out exactly by this engine, or by none: a function on a batch of
            images of several sizes.

    Example:
        >>> recipe = Recipe([RandomResizedCrop(32), ColorJitter(0.4)])
        >>> compile_engine("auto", recipe, device=torch.device("cpu")).name
        'fused'
    """
    name = best_engine(device) if name == "auto" else name
    _check_functions(recipe)
    try:
        if name == "kornia":
            from gpu_aug.engines.kornia import KorniaEngine

            return KorniaEngine(recipe, device=device)
        if name == "albumentations":
            from gpu_aug.engines.albumentations import AlbumentationsEngine

            return AlbumentationsEngine(recipe, device=device)
        if name == "fused":
            from gpu_aug.engines.fused.engine import FusedEngine

            return FusedEngine(recipe, device=device, exact=exact)
    except ModuleNotFoundError as error:
        package, _, inside = (error.name or name).partition(".")
        if inside and sys.modules.get(package):
            raise EngineError(
                f"engine {name!r} needs another version of the package {package!r}, got one without "
                f"{error.name}: pip install --upgrade 'gpu-aug' {package}"
            ) from error
        raise EngineError(
            f"engine {name!r} needs the package {package!r}, which is not installed: "
            "pip install 'gpu-aug'"
        ) from error
    raise EngineError(
        f"engine must be 'auto', 'kornia', 'albumentations' or 'fused', got {name!r}: choose one"
    )


def takes_batches(recipe: Recipe) -> bool:
    """Whether a function of the user is called with all images of a batch at once."""
    return any(isinstance(leaf, BatchFunction) for leaf in recipe.batch_leaves)


def _check_functions(recipe: Recipe) -> None:
    for leaf in recipe.batch_leaves[: recipe.num_single_leaves]:
        if isinstance(leaf, BatchFunction):
            raise EngineError(
                f"{leaf.title} must get images of one size, which make a batch, got several sizes: put "
                "RandomResizedCrop(size), Resize((height, width)) or CenterCrop(size) before it, or make it a "
                "torch.nn.Module, which gets one image at a time"
            )


def num_exact(leaves: Sequence[Operation]) -> int:
    """Return how many leading leaves can be carried out on uint8 without rounding."""
    return sum(1 for _ in takewhile(lambda leaf: leaf.moves_pixels_only, leaves))


def leading_normalize(recipe: Recipe, exact: int) -> Normalize | None:
    """Return the leaf after the ``exact`` first ones, if it is a Normalize that every image gets.

    It can then take values in [0, 255]: one pass over the images less.
    """
    leaves = -len(recipe.decode_operations)
    for operation in recipe.image_operations:
        if leaves == exact:
            return operation if isinstance(operation, Normalize) else None
        leaves += len(operation.leaves)
    return None
