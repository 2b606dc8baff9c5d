"""Wrapping of functions and of transforms of other libraries as operations of a recipe."""

from typing import Any

from gpu_aug.errors import RecipeError
from gpu_aug.names import policy_reason
from gpu_aug.ops.foreign.foreign import comes_from
from gpu_aug.ops.foreign.function import BatchFunction
from gpu_aug.ops.foreign.transforms import (
    AlbumentationsTransform,
    KorniaModule,
    TorchvisionTransform,
)
from gpu_aug.ops.operation import Operation


def as_operation(step: Any, what: str) -> Operation:
    """Return ``step`` if it is an operation; otherwise wrap it into one that calls it unchanged.

    Transforms of Albumentations, modules of Kornia, transforms of torchvision and functions can be wrapped.

    Raises:
        RecipeError: ``step`` cannot be a step of a recipe; the error calls it ``what``.
    """
    if isinstance(step, Operation):
        return step
    if not isinstance(step, type):
        if comes_from("albumentations", step):
            return AlbumentationsTransform(step)
        if comes_from("torchvision", step):
            return TorchvisionTransform(step)
        if comes_from("torch", step) and hasattr(step, "forward"):
            return KorniaModule(step)
        if callable(step):
            return BatchFunction(step)
    if isinstance(step, list | tuple):
        raise RecipeError(
            f"{what} must be one step, got a list of {len(step)}: make one of them with "
            "RandomApply([...], p=1)"
        )
    raise RecipeError(
        f"{what} must be an Operation such as HorizontalFlip(), a transform of Albumentations, a "
        f"module of Kornia or a function on a batch, got {step!r}{_reason(step)}"
    )


def _reason(step: Any) -> str:
    """Return a hint for the error if the step is the name of a timm policy, or a class that was not called."""
    if isinstance(step, str):
        reason = policy_reason(step)
        return f": {reason}" if reason else ""
    return f": write {step.__name__}(...)" if isinstance(step, type) else ""
