"""Operations that change only boxes and leave images unchanged."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from gpu_aug.ops import validation
from gpu_aug.ops.operation import Operation

__all__ = ["ClampBoundingBoxes", "OnTargets", "SanitizeBoundingBoxes"]


class OnTargets(Operation, abstract=True):
    """An operation that no engine has to carry out: ``gpu_aug.targets.move_batch`` does it."""

    any_channels: ClassVar[bool] = True

    moves_pixels_only: ClassVar[bool] = True
    """Always: pixels stay as they are."""


@dataclass(frozen=True)
class ClampBoundingBoxes(OnTargets):
    """Cut boxes at the border of the image.

    Recipes do that after every operation, unless BoxParams(check_each=False).

    Source: torchvision v2 ClampBoundingBoxes.
    """


@dataclass(frozen=True)
class SanitizeBoundingBoxes(OnTargets):
    """Drop boxes that are too small or leave the image, with their labels.

    Masks go with them where the recipe has BoxParams(instance_masks=True).

    Args:
        min_size: Least width and height, in pixels.
        min_area: Least area, in pixels.

    Source: torchvision v2 SanitizeBoundingBoxes.

    Example:
        >>> Recipe([RandomResizedCrop(224), SanitizeBoundingBoxes()]).size
        (224, 224)
    """

    min_size: Annotated[float, validation.Number(low=1, example="1.0")] = 1.0
    min_area: Annotated[float, validation.Number(low=1, example="1.0")] = 1.0
