"""Operations that change only boxes and leave images unchanged."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from gpu_aug.ops import validation
from gpu_aug.ops.operation import Operation

__all__ = ["ClampBoundingBoxes", "OnTargets", "SanitizeBoundingBoxes"]


class OnTargets(Operation, abstract=True):
    """Base of operations that change boxes only; ``gpu_aug.targets.move_batch`` carries them out, engines do nothing."""

    any_channels: ClassVar[bool] = True

    moves_pixels_only: ClassVar[bool] = True
    """Always: pixels stay as they are."""


@dataclass(frozen=True)
class ClampBoundingBoxes(OnTargets):
    """Clip boxes at the border of the image.

    Recipes do this after every operation anyway, unless they have BoxParams(check_each=False). Of an oriented box the part in
    the image stays, and the rectangle of least area around this part is returned, whose corners may lie outside. (torchvision
    moves sides of the rectangle at its angle.)

    Source: torchvision v2 ClampBoundingBoxes.
    """


@dataclass(frozen=True)
class SanitizeBoundingBoxes(OnTargets):
    """Drop boxes that are too small or reach outside the image, with their labels.

    The size of an oriented box is that of the rectangle that would be returned. It reaches outside if the image does not show all
    of it; clipped boxes do not, even if corners of their rectangles do. If the recipe has BoxParams(instance_masks=True), the
    masks of these boxes are dropped too.

    Args:
        min_size: Smallest width and height of a box that is kept, in pixels.
        min_area: Smallest area of a box that is kept, in pixels.

    Source: torchvision v2 SanitizeBoundingBoxes.

    Example:
        >>> Recipe([RandomResizedCrop(224), SanitizeBoundingBoxes()]).size
        (224, 224)
    """

    min_size: Annotated[float, validation.Number(low=1, example="1.0")] = 1.0
    min_area: Annotated[float, validation.Number(low=1, example="1.0")] = 1.0
