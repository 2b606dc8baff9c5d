"""Functions that choose the engine for a recipe, and that describe the passes of the fused engine."""

import sys
from functools import partial
from typing import Literal

import torch

from gpu_aug.engines.channel_triplets import EngineByChannelTriplets, of_three_channels
from gpu_aug.engines.engine import Engine
from gpu_aug.errors import EngineError
from gpu_aug.expected_recipe import require_recipe
from gpu_aug.image_kind import USUAL, ImageKind
from gpu_aug.ops.foreign.function import BatchFunction
from gpu_aug.recipe import Recipe

EngineName = Literal["kornia", "albumentations", "fused"]
EngineChoice = Literal["auto", "fused", "kornia", "albumentations"]


def best_engine(kind: ImageKind = USUAL) -> EngineName:
    """Return the engine name that "auto" stands for: "fused" for RGB images, "kornia" for other numbers of channels.

    Kornia is faster on other numbers of channels, on a CPU as well; see DECISIONS.md, "Channels other than RGB".
    """
    return "fused" if kind.channels == 3 else "kornia"


def compile_engine(
    name: EngineChoice,
    recipe: Recipe,
    *,
    device: torch.device,
    exact: bool = False,
    kind: ImageKind = USUAL,
) -> Engine:
    """Return an engine that is ready to run a recipe on a device.

    Args:
        name: Name of the engine; "auto" stands for ``best_engine(kind)``.
        recipe: The recipe.
        device: Device of the images.
        exact: Whether each warp interpolates by itself. If False, "fused" composes consecutive warps into one
            interpolation; the other engines never do.
        kind: Channels and value range of the images. If they are not RGB, "fused" and "albumentations" process three
            channels at a time.

    Raises:
        RecipeError: An operation does not take images of this kind.
        EngineError: The name is unknown, the package is missing, the device is not supported,
            or an operation cannot be carried out exactly by this engine. No engine can call a function on a batch of
            images of several sizes.

    Example:
        >>> recipe = Recipe([RandomResizedCrop(32), ColorJitter(0.4)])
        >>> compile_engine("auto", recipe, device=torch.device("cpu")).name
        'fused'
    """
    require_recipe(recipe, Recipe)
    name = best_engine(kind) if name == "auto" else name
    _check_functions(recipe)
    kind.require_fits(recipe.operations)
    make = partial(_make, name, device=device, exact=exact)
    if kind.channels == 3 or name == "kornia":
        return make(recipe)
    return EngineByChannelTriplets(make, recipe, kind.channels)


def _make(name: str, recipe: Recipe, *, device: torch.device, exact: bool) -> Engine:
    """Return an engine for RGB images; "kornia" takes any number of channels."""
    try:
        if name == "kornia":
            from gpu_aug.engines.backends.kornia_engine import KorniaEngine

            return KorniaEngine(recipe, device=device)
        if name == "albumentations":
            from gpu_aug.engines.backends.albumentations_engine import AlbumentationsEngine

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


def _check_functions(recipe: Recipe) -> None:
    for leaf in recipe.batch_leaves[: recipe.num_single_leaves]:
        if isinstance(leaf, BatchFunction):
            raise EngineError(
                f"{leaf.title} must get images of one size, which make a batch, got several sizes: put "
                "RandomResizedCrop(size), Resize((height, width)) or CenterCrop(size) before it, or make it a "
                "torch.nn.Module, which gets one image at a time"
            )


def explain_recipe(recipe: Recipe, device: str = "cpu", *, exact: bool = False) -> str:
    """Return a readable description of how the engine "fused" carries out the batch stage.

    Args:
        recipe: The recipe.
        device: The device to plan for, "cpu" or "cuda".
        exact: Whether each warp interpolates by itself.

    Returns:
        Text with several lines for each pass over an image: its operations, the bytes that it reads and writes, and why
        it could not be joined with the pass before.

    Raises:
        EngineError: The engine cannot carry out an operation.
    """
    from gpu_aug.engines.fused.compile.explain import explain

    steps = ", ".join(map(repr, recipe.temporal_operations))
    frames = f"before decoding, which frames: {steps}\n" if steps else ""
    recipe = of_three_channels(recipe)  # the passes of all other channels are the same
    return frames + explain(recipe, device=torch.device(device), exact=exact)
