"""Operations that mirror images, turn them by quarters, or change nothing."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gpu_aug.draws import Params
from gpu_aug.ops.distributions.columns import Drawn, Numbers, Random
from gpu_aug.ops.distributions.uniform import Sizes, whole_below
from gpu_aug.ops.geometric.spatial import Reorient
from gpu_aug.ops.operation import WithProbability

__all__ = ["D4", "HorizontalFlip", "Identity", "RandomRotate90", "Transpose", "VerticalFlip"]

# Quarter turns counterclockwise, of 0 to 3.
_TURNS = {
    "transpose": np.array([False, True, False, True]),
    "top_bottom": np.array([False, True, True, False]),
    "left_right": np.array([False, False, True, True]),
}


@dataclass(frozen=True)
class HorizontalFlip(WithProbability, Reorient):
    """Mirror left and right with probability ``p``.

    Source: torchvision v2 RandomHorizontalFlip.

    Example:
        >>> [result] = apply(Recipe([HorizontalFlip(p=1.0)]), [{"image": np.eye(2, dtype=np.uint8)}])
        >>> result["image"][0].tolist()
        [[0.0, 0.003...], [0.003..., 0.0]]
    """

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        return reorient_params(sizes, left_right=True)


@dataclass(frozen=True)
class VerticalFlip(WithProbability, Reorient):
    """Mirror top and bottom with probability ``p``.

    Source: torchvision v2 RandomVerticalFlip.
    """

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        return reorient_params(sizes, top_bottom=True)


@dataclass(frozen=True)
class Transpose(WithProbability, Reorient):
    """Make rows of columns with probability ``p``.

    Source: Albumentations Transpose.
    """

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        return reorient_params(sizes, transpose=True)

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Height and width change places."""
        return turned_sizes(sizes, always=self.p == 1)


@dataclass(frozen=True)
class RandomRotate90(WithProbability, Reorient):
    """Turn by 0, 1, 2 or 3 quarters counterclockwise, each equally likely, with probability ``p``.

    Args:
        p: Share of the images that are turned; a quarter of those by 0 quarters.

    Source: Albumentations RandomRotate90.
    """

    random: ClassVar[Random] = {"quarters": Numbers()}

    p: float = 1.0

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return the gate and the turn."""
        quarters = whole_below(drawn["quarters"], 4)
        moves = {name: turns[quarters] for name, turns in _TURNS.items()}
        return reorient_params(sizes, **moves)

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Height and width may change places."""
        return turned_sizes(sizes)


@dataclass(frozen=True)
class D4(WithProbability, Reorient):
    """One of the eight mirrorings and turns of a square, equally likely, with probability ``p``.

    Args:
        p: Share of the images that are moved; an eighth of those stays as it is.

    Source: Albumentations D4, also called SquareSymmetry.
    """

    random: ClassVar[Random] = {"bits": Numbers()}

    p: float = 1.0

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return the gate and the symmetry."""
        bits = whole_below(drawn["bits"], 8)
        return reorient_params(
            sizes,
            transpose=(bits & 1) > 0,
            top_bottom=(bits & 2) > 0,
            left_right=(bits & 4) > 0,
        )

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Height and width may change places."""
        return turned_sizes(sizes)


def reorient_params(
    sizes: Sizes,
    *,
    transpose: Any = False,
    top_bottom: Any = False,
    left_right: Any = False,
) -> Params:
    """Return the parameters of Reorient for images of ``sizes``; each is bool [B], given as that or as one bool."""
    moves = {"transpose": transpose, "top_bottom": top_bottom, "left_right": left_right}
    return {name: np.full(len(sizes), move) for name, move in moves.items()}


def turned_sizes(sizes: Sizes, *, always: bool = False) -> Sizes:
    """Return the sizes after a transposition, and those before unless it is ``always`` done."""
    return sizes[:, ::-1] if always else np.unique(np.concatenate([sizes, sizes[:, ::-1]]), axis=0)


@dataclass(frozen=True)
class Identity(Reorient):
    """Leave the image unchanged: a choice for OneOf or SomeOf.

    Source: torchvision v2 Identity; Albumentations NoOp.

    Example:
        >>> recipe = Recipe([RandomResizedCrop(224), OneOf([Identity(), Grayscale(1.0)])])
    """

    tolerance: ClassVar[float] = 0.0

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return closed gates."""
        names = ("apply", "transpose", "top_bottom", "left_right")
        return {name: np.zeros(len(sizes), bool) for name in names}
