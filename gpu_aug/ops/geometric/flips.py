"""Operations that flip images, rotate them by quarter turns, or change nothing."""

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
    """Flip left and right with probability ``p``.

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
    """Flip top and bottom with probability ``p``.

    Source: torchvision v2 RandomVerticalFlip.
    """

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        return reorient_params(sizes, top_bottom=True)


@dataclass(frozen=True)
class Transpose(WithProbability, Reorient):
    """Swap rows and columns with probability ``p``.

    Source: Albumentations Transpose.
    """

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        return reorient_params(sizes, transpose=True)

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Return each size with height and width swapped, and ``sizes`` themselves unless ``p`` is 1."""
        return turned_sizes(sizes, always=self.p == 1)


@dataclass(frozen=True)
class RandomRotate90(WithProbability, Reorient):
    """Rotate counterclockwise by 0, 1, 2 or 3 quarter turns, each equally likely, with probability ``p``.

    Args:
        p: Share of the images for which a turn is drawn; a quarter of these draw 0 turns.

    Source: Albumentations RandomRotate90.
    """

    may_mirror: ClassVar[bool] = False

    random: ClassVar[Random] = {"quarters": Numbers()}

    p: float = 1.0

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return the drawn quarter turn as the parameters of Reorient."""
        quarters = whole_below(drawn["quarters"], 4)
        moves = {name: turns[quarters] for name, turns in _TURNS.items()}
        return reorient_params(sizes, **moves)

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Return each size, and each size with height and width swapped."""
        return turned_sizes(sizes)


@dataclass(frozen=True)
class D4(WithProbability, Reorient):
    """Apply one of the eight symmetries of a square (flips and quarter turns), equally likely, with probability ``p``.

    Args:
        p: Share of the images for which a symmetry is drawn; an eighth of these draw the identity.

    Source: Albumentations D4, also called SquareSymmetry.
    """

    random: ClassVar[Random] = {"bits": Numbers()}

    p: float = 1.0

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return the drawn symmetry as the parameters of Reorient."""
        bits = whole_below(drawn["bits"], 8)
        return reorient_params(
            sizes,
            transpose=(bits & 1) > 0,
            top_bottom=(bits & 2) > 0,
            left_right=(bits & 4) > 0,
        )

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Return each size, and each size with height and width swapped."""
        return turned_sizes(sizes)


def reorient_params(
    sizes: Sizes,
    *,
    transpose: Any = False,
    top_bottom: Any = False,
    left_right: Any = False,
) -> Params:
    """Return the parameters of Reorient for images of ``sizes``; each argument is bool [B], or one bool for all images."""
    moves = {"transpose": transpose, "top_bottom": top_bottom, "left_right": left_right}
    return {name: np.full(len(sizes), move) for name, move in moves.items()}


def turned_sizes(sizes: Sizes, *, always: bool = False) -> Sizes:
    """Return sizes with height and width swapped, and ``sizes`` themselves unless images are ``always`` transposed."""
    return sizes[:, ::-1] if always else np.unique(np.concatenate([sizes, sizes[:, ::-1]]), axis=0)


@dataclass(frozen=True)
class Identity(Reorient):
    """Leave the image unchanged, as one of the choices of OneOf or SomeOf.

    Source: torchvision v2 Identity; Albumentations NoOp.

    Example:
        >>> recipe = Recipe([RandomResizedCrop(224), OneOf([Identity(), Grayscale(1.0)])])
    """

    tolerance: ClassVar[float] = 0.0

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return the parameters of Reorient with all gates closed."""
        names = ("apply", "transpose", "top_bottom", "left_right")
        return {name: np.zeros(len(sizes), bool) for name in names}
