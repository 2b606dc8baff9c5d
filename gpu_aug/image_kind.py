"""ImageKind: the number of channels and bits of images, and the check that operations take them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch

from gpu_aug.errors import RecipeError
from gpu_aug.ops.color.normalize import Normalize
from gpu_aug.ops.combine import Combinator
from gpu_aug.ops.dropout.erase import Holes
from gpu_aug.ops.foreign.foreign import Foreign
from gpu_aug.ops.imported.dropout import PixelDropout
from gpu_aug.ops.operation import Operation
from gpu_aug.ops.temporal import Temporal

Depth = Literal[8, 16, "float32"]
DEPTHS: tuple[Depth, ...] = get_args(Depth)

_LARGEST_STD = (
    2.0  # the standard deviation of values in [0, 1] is at most 0.5, and 1 keeps their scale
)
# Fields of operations with a value for each channel.
_FILLS = ("fill", "value", "drop_value")


@dataclass(frozen=True, slots=True)
class ImageKind:
    """The number of channels and the depth of images.

    Args:
        channels: Number of channels of an image, at least 1: 1 is gray, 3 is RGB, 4 is RGBA.
        depth: Depth of a channel: 8 or 16 bits, whose values are scaled to [0, 1]; or "float32" for stored numbers of any
            range, which are not scaled.

    Example:
        >>> ImageKind(channels=5, depth=16).dtype
        torch.float32
    """

    channels: int = 3
    depth: Depth = 8

    def __post_init__(self) -> None:
        whole = isinstance(self.channels, int) and not isinstance(self.channels, bool)
        if not whole or self.channels < 1:
            raise RecipeError(
                f"channels must be a whole number from 1, got {self.channels!r}: give 1 for gray, 3 for RGB or 4 "
                "for RGBA images"
            )
        if isinstance(self.depth, bool) or self.depth not in DEPTHS:
            raise RecipeError(
                f"depth must be 8, 16 or 'float32', got {self.depth!r}: give 16 for uint16 images, and 'float32' "
                "for images of floats"
            )

    def __str__(self) -> str:
        names = {1: "gray", 3: "RGB", 4: "RGBA"}
        values = "float32" if self.depth == "float32" else f"{self.depth} bits"
        return f"{names.get(self.channels, f'{self.channels} channels')} of {values}"

    @property
    def is_usual(self) -> bool:
        """Whether images are RGB with 8 bits."""
        return self.channels == 3 and self.depth == 8

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of the images that engines get: uint8, or float32, for 16 bits divided by 65535."""
        return torch.uint8 if self.depth == 8 else torch.float32

    def require_fits(self, operations: Sequence[Operation]) -> None:
        """Check that operations take images of this kind.

        Raises:
            RecipeError: An operation does not take them; the error names it.
        """
        for operation in operations:
            if isinstance(operation, Combinator):
                self.require_fits(operation.children)
            elif problem := self.problem(operation):
                raise RecipeError(problem)

    def problem(self, operation: Operation) -> str:
        """Return why an operation does not take images of this kind, or "" if it does."""
        return (
            self._problem_of_channels(operation)
            or self._problem_of_depth(operation)
            or ("" if self.depth == "float32" else problem_of_range(operation))
        )

    def _problem_of_channels(self, operation: Operation) -> str:
        name, got = type(operation).__name__, f"got channels={self.channels}"
        if isinstance(operation, Normalize):
            count = len(operation.mean)
            if (
                count == self.channels
                or len(set(zip(operation.mean, operation.std, strict=True))) == 1
            ):
                return ""
            return (
                f"{name} has {count} means and standard deviations, {got}: give as many of each as there are "
                "channels, or one number for all"
            )
        if self.channels == 3 or isinstance(operation, Temporal):
            return ""
        for field in _FILLS:
            if isinstance(getattr(operation, field, None), tuple):
                return f"{name} has a {field} of three values, {got}: give one number, for all channels"
        if operation.any_channels:
            return ""
        takes = "needs RGB images"
        if isinstance(operation, Foreign):
            takes = "is called with RGB images"
        elif isinstance(operation, Holes | PixelDropout):
            takes += " for the colours that it draws"
        return (
            f"{name} {takes}, {got}: take it out of the recipe, or load the images with channels=3"
        )

    def _problem_of_depth(self, operation: Operation) -> str:
        name = type(operation).__name__
        if self.depth != 8 and operation.rounds_to_8_bits:
            return (
                f"{name} rounds values to 8 bits, got depth={self.depth!r}: take it out of the recipe, or load the "
                "images with depth=8"
            )
        if self.depth == "float32" and operation.needs_unit_range:
            return (
                f"{name} needs values in [0, 1], got depth='float32', whose values are as they are stored: take it "
                "out of the recipe, or store the images with 16 bits"
            )
        return ""


def problem_of_range(operation: Operation) -> str:
    """Return the error for a Normalize whose values are for images in 0 to 255; "" for all other operations.

    Images lie in [0, 1] here.
    """
    if not isinstance(operation, Normalize):
        return ""
    if max(operation.mean) <= 1 and max(operation.std) <= _LARGEST_STD:
        return ""
    mean, std = (
        "(" + ", ".join(f"{value / 255:.5g}" for value in values) + ")"
        for values in (operation.mean, operation.std)
    )
    return (
        f"Normalize mean={operation.mean} and std={operation.std} look like values of 0..255, but images lie in [0, 1]: "
        f"write Normalize(mean={mean}, std={std})"
    )


USUAL = ImageKind()
