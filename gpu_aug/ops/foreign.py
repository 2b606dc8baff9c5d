"""Steps that are not ours: a user's own transform or function in a recipe."""

from typing import Any

from gpu_aug.errors import RecipeError
from gpu_aug.ops.operation import Operation


def as_operation(step: Any, what: str) -> Operation:
    """Return ``step`` if it is an operation, or wrapped into one.

    Raises:
        RecipeError: It can be no step of a recipe; ``what`` names it in the error.
    """
    if isinstance(step, Operation):
        return step
    raise RecipeError(f"{what} must be an Operation such as HorizontalFlip(), got {step!r}")
