"""Operations that mirror and turn images by quarters."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpu_aug.draws import Params
from gpu_aug.ops.distributions.uniform import Sizes, Uniforms, whole_below
from gpu_aug.ops.geometric.spatial import Reorient
from gpu_aug.ops.operation import Gated

__all__ = ["D4", "HorizontalFlip", "RandomRotate90", "Transpose", "VerticalFlip"]

# Quarter turns counterclockwise, of 0 to 3.
_TURNS = {
    "transpose": np.array([False, True, False, True]),
    "top_bottom": np.array([False, True, True, False]),
    "left_right": np.array([False, False, True, True]),
}


@dataclass(frozen=True)
class HorizontalFlip(Gated, Reorient):
    """Mirror left and right with probability ``p``.

    Source: torchvision v2 RandomHorizontalFlip.

    Example:
        >>> [result] = apply(Recipe([HorizontalFlip(p=1.0)]), [{"image": np.eye(2, dtype=np.uint8)}])
        >>> result["image"][0].tolist()
        [[0.0, 0.003...], [0.003..., 0.0]]
    """

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - any size
        """Draw the gate."""
        return reorient_params(u[:, 0] < self.p, left_right=True)


@dataclass(frozen=True)
class VerticalFlip(Gated, Reorient):
    """Mirror top and bottom with probability ``p``.

    Source: torchvision v2 RandomVerticalFlip.
    """

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - any size
        """Draw the gate."""
        return reorient_params(u[:, 0] < self.p, top_bottom=True)


@dataclass(frozen=True)
class Transpose(Gated, Reorient):
    """Make rows of columns with probability ``p``.

    Source: Albumentations Transpose.
    """

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - any size
        """Draw the gate."""
        return reorient_params(u[:, 0] < self.p, transpose=True)

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Height and width change places."""
        return turned_sizes(sizes, always=self.p == 1)


@dataclass(frozen=True)
class RandomRotate90(Gated, Reorient):
    """Turn by 0, 1, 2 or 3 quarters counterclockwise, each equally likely, with probability ``p``.

    Args:
        p: Share of the images that are turned; a quarter of those by 0 quarters.

    Source: Albumentations RandomRotate90.
    """

    num_uniforms: ClassVar[int] = 2
    """The gate and the number of quarters."""

    p: float = 1.0

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - any size
        """Draw the gate and the turn."""
        quarters = whole_below(u[:, 1], 4)
        moves = {name: turns[quarters] for name, turns in _TURNS.items()}
        return reorient_params(u[:, 0] < self.p, **moves)

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Height and width may change places."""
        return turned_sizes(sizes)


@dataclass(frozen=True)
class D4(Gated, Reorient):
    """One of the eight mirrorings and turns of a square, equally likely, with probability ``p``.

    Args:
        p: Share of the images that are moved; an eighth of those stays as it is.

    Source: Albumentations D4, also called SquareSymmetry.
    """

    num_uniforms: ClassVar[int] = 2
    """The gate and the symmetry."""

    p: float = 1.0

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - any size
        """Draw the gate and the symmetry."""
        bits = whole_below(u[:, 1], 8)
        return reorient_params(
            u[:, 0] < self.p,
            transpose=(bits & 1) > 0,
            top_bottom=(bits & 2) > 0,
            left_right=(bits & 4) > 0,
        )

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Height and width may change places."""
        return turned_sizes(sizes)


def reorient_params(
    apply: NDArray[np.bool_],
    *,
    transpose: Any = False,
    top_bottom: Any = False,
    left_right: Any = False,
) -> Params:
    """Return the parameters of Reorient; each is bool [B], and those but ``apply`` may be one bool."""
    moves = {"transpose": transpose, "top_bottom": top_bottom, "left_right": left_right}
    return {"apply": apply} | {name: np.full(len(apply), move) for name, move in moves.items()}


def turned_sizes(sizes: Sizes, *, always: bool = False) -> Sizes:
    """Return the sizes after a transposition, and those before unless it is ``always`` done."""
    return sizes[:, ::-1] if always else np.unique(np.concatenate([sizes, sizes[:, ::-1]]), axis=0)
