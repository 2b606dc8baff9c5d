"""Operations that mix neighbouring images of a batch."""

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpu_aug.draws import Params
from gpu_aug.errors import RecipeError
from gpu_aug.ops import validation
from gpu_aug.ops.distributions.columns import Drawn, Numbers, Random, Uniform
from gpu_aug.ops.distributions.gamma import beta
from gpu_aug.ops.distributions.uniform import Range, Sizes, whole_below
from gpu_aug.ops.operation import Operation

__all__ = ["CutMix", "MixUp", "Mixing", "Mosaic"]


class Mixing(Operation, abstract=True):
    """Base of operations that make an image of several images of one size.

    Each image draws its own parameters. All images read the others as they were before this operation.
    """

    any_channels: ClassVar[bool] = True

    num_classes: Annotated[
        int | None, validation.optional(validation.Integer(low=1, example="1000"))
    ] = None

    def sources(self, partners: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows, int64 [B, group], of the images that each image may be made of, its own row first.

        Args:
            partners: Rows of the neighbouring images, int64 [B, 4]; see Draws.
        """
        own = np.arange(len(partners))[:, None]
        others = partners[:, :1] if self.group == 2 else partners[:, 1:]
        return np.concatenate([own, others], axis=1)

    def mixed(self, params: Params, partners: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which images are changed, bool [B]: their gate is open, and they have a partner other than themselves."""
        sources = self.sources(partners)
        applied: NDArray[np.bool_] = params["apply"] & (sources != sources[:, :1]).any(axis=1)
        return applied

    @abstractmethod
    def shares(self, params: Params) -> NDArray[np.float64]:
        """Return the share of each of ``sources`` in each image, float64 [B, group]; the shares of an image add up to 1."""

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Return ``sizes``, which must be one size.

        Raises:
            RecipeError: The images can have different sizes.
        """
        if len(np.unique(sizes, axis=0)) > 1:
            name = type(self).__name__
            raise RecipeError(
                f"{name} must get images of one size, got images of different sizes: put "
                f"RandomResizedCrop(size), Resize((height, width)) or CenterCrop(size) before {name}"
            )
        return sizes


@dataclass(frozen=True)
class _MixingPairs(Mixing, abstract=True):
    """Base of operations that mix each image with the other one of a pair of neighbouring positions of the epoch's order.

    Args:
        alpha: Parameter of the distribution Beta(alpha, alpha).
        num_classes: Number of classes, for soft labels; None if labels are soft already, or if the
            number is given elsewhere.
        p: Share of the images that are mixed.
    """

    group: ClassVar[int] = 2

    alpha: Annotated[float, validation.Number(low=0, above=True, example="0.2")] = 1.0
    num_classes: int | None = None
    _: KW_ONLY
    p: float = 1.0

    def shares(self, params: Params) -> NDArray[np.float64]:
        """Return the parameter ``lam`` and 1 - ``lam``, float64 [B, 2]."""
        return np.stack([params["lam"], 1 - params["lam"]], axis=1)


@dataclass(frozen=True)
class MixUp(_MixingPairs):
    """Blend each image with its partner: ``lam * image + (1 - lam) * partner``.

    The partner is the other one of a pair of neighbouring positions of the epoch's order. Both
    draw their own ``lam``.

    Args:
        alpha: Parameter of the distribution Beta(alpha, alpha), from which ``lam`` is drawn.
        num_classes: Number of classes, for soft labels; None if labels are soft already, or if the
            number is given elsewhere.
        p: Share of the images that are mixed.

    Source: torchvision v2 MixUp, per image; Zhang et al. 2018, https://arxiv.org/abs/1710.09412.

    Example:
        >>> loader = Loader(open_dataset("photos/"), Recipe([RandomResizedCrop(32), MixUp()]), batch_size=4)
        >>> loader.peek().labels.shape                     # shares of the classes
        torch.Size([4, 2])
    """

    # Measured 0 on noise and photographs: the same float32 products and sum.
    tolerance: ClassVar[float] = 0.0001

    random: ClassVar[Random] = {"lam": Numbers(2)}

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``lam``, float64 [B]."""
        return {"lam": beta(drawn["lam"], self.alpha)}


@dataclass(frozen=True)
class CutMix(_MixingPairs):
    """Replace a rectangle of each image by the same rectangle of its partner.

    The partner is the other one of a pair of neighbouring positions of the epoch's order. Both
    draw their own rectangle.

    Args:
        alpha: Parameter of the distribution Beta(alpha, alpha), from which lam is drawn. The area of the rectangle, before
            it is clipped to the image, is the share 1 - lam of the image.
        num_classes: Number of classes, for soft labels; None if labels are soft already, or if the
            number is given elsewhere.
        p: Share of the images that are mixed.

    Source: torchvision v2 CutMix, per image; Yun et al. 2019, https://arxiv.org/abs/1905.04899.
    """

    moves_pixels_only: ClassVar[bool] = True
    """Always."""

    random: ClassVar[Random] = {"lam": Numbers(2), "center": Numbers(2)}

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``start`` and ``shape``, int64 [B, 2], of the rectangle, and ``lam``, float64 [B], the area outside as a share."""
        half = (0.5 * np.sqrt(1 - beta(drawn["lam"], self.alpha)))[:, None] * sizes
        half = half.astype(np.int64)
        center = whole_below(drawn["center"], sizes)
        start, stop = np.maximum(center - half, 0), np.minimum(center + half, sizes)
        lam = 1 - (stop - start).prod(axis=1) / sizes.prod(axis=1)
        return {"start": start, "shape": stop - start, "lam": lam}


@dataclass(frozen=True)
class Mosaic(Mixing):
    """Tile four images, two by two, and crop a window of the size of one image.

    The image itself is at the top left. Clockwise follow the third, fourth and second of the four neighbouring positions of
    the epoch's order, counted from the image. Nothing is resampled.

    Args:
        center_range: Range of the window's corner, as shares of height and width: the window starts
            at ``floor(share * size)``, and the four images meet in the window at 1 - share.
        num_classes: Number of classes, for soft labels, which are weighted by area; None if
            labels are soft already, or if the number is given elsewhere.
        p: Share of the images that become a mosaic.

    Source: Kornia RandomMosaic with a grid of 2 x 2; Bochkovskiy et al. 2020,
    https://arxiv.org/abs/2004.10934.
    """

    group: ClassVar[int] = 4

    moves_pixels_only: ClassVar[bool] = True
    """Always."""

    random: ClassVar[Random] = {"start": Uniform("center_range", 2)}

    center_range: Annotated[Range, validation.Interval(low=0, high=1, example="(0.3, 0.7)")] = (
        0.3,
        0.7,
    )
    _: KW_ONLY
    num_classes: int | None = None
    p: float = 1.0

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``start``, the window's top-left corner on the four tiles, and ``size`` of the images, int64 [B, 2] each."""
        start = np.floor(drawn["start"] * sizes).astype(np.int64)
        return {"start": start, "size": sizes.copy()}

    def shares(self, params: Params) -> NDArray[np.float64]:
        """Return the shares of the window's area that the tiles cover, float64 [B, 4], in the order of ``sources``."""
        later = params["start"] / params["size"]
        (down, right), (up, left) = later.T, 1 - later.T
        return np.stack([up * left, down * left, up * right, down * right], axis=1)

    def offsets(self, params: Params) -> NDArray[np.int64]:
        """Return the top-left corners of the tiles in the window, int64 [B, 4, 2], in the order of ``sources``."""
        tiles = np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
        corners: NDArray[np.int64] = (
            tiles * params["size"][:, None] - params["start"][:, None]
        ).astype(np.int64)
        return corners
