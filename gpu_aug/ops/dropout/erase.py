"""Operations that paint over one rectangle, and the base of all operations that paint rectangles."""

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from gpu_aug.draws import Params, philox4x32
from gpu_aug.ops import validation
from gpu_aug.ops.distributions.columns import Drawn, Key, Law, Numbers, Random, Uniform
from gpu_aug.ops.distributions.uniform import Range, Sizes, Uniforms, log_between, whole_below
from gpu_aug.ops.geometric.borders import is_whole_fill
from gpu_aug.ops.operation import Operation
from gpu_aug.random_fields import keys

__all__ = ["Erasing", "RandomErasing"]

_NUM_TRIES = 10  # torchvision's number

Paint = float | tuple[float, float, float] | Literal["random", "random_uniform", "normal"]
# Names of random fills; see `Holes.paint`.
PAINTS = ("random", "random_uniform", "normal")


def checked_paint(name: str, field: str, value: Any, *, words: tuple[str, ...]) -> Any:
    """Check a fill; return one value, three values, or one of ``words``."""
    return (
        value if isinstance(value, str) and value in words else validation.fill(name, field, value)
    )


class Holes(Operation, abstract=True):
    """Base of operations that paint rectangles.

    The drawn parameter ``holes``, int64 [B, N, 4], has top, left, bottom and right (exclusive) of rectangles inside the image;
    empty ones are allowed, and N may depend on the sizes of the batch. If ``paint`` is "random" or "normal", ``key``,
    uint32 [B, 2], determines the noise; if it is "random_uniform", ``colours``, float64 [B, N, 3], are the colours.

    Attributes:
        fill_mask: Value of masks in the rectangles; None leaves masks unchanged.
    """

    fill_mask: int | None = None

    @property
    @abstractmethod
    def paint(self) -> Paint:
        """The fill: one value, three values, or the name of a random fill.

        "random" is uniform noise in [0, 1) per pixel and channel, "normal" is standard normal noise, "random_uniform"
        is a uniform colour in [0, 1) per rectangle; later rectangles cover earlier ones.
        """

    @property
    def any_channels(self) -> bool:  # type: ignore[override]
        """True unless the fill is random, which is for RGB images only."""
        return not isinstance(self.paint, str)

    @property
    def moves_pixels_only(self) -> bool:
        """True if the fill is a multiple of 1/255 and not random."""
        return not isinstance(self.paint, str) and is_whole_fill(self.paint)


@dataclass(frozen=True)
class Dropout(Holes, abstract=True):
    """Base of operations that fill rectangles as Albumentations does.

    Attributes:
        fill: One value or three, in the value range at this step of the recipe: [0, 1] before Normalize. "random" is uniform
            noise in [0, 1) per pixel and channel, "random_uniform" a uniform colour per rectangle.
        fill_mask: Value of masks in the rectangles; None leaves masks unchanged.
        p: Share of the images that are changed.
    """

    _: KW_ONLY
    fill: Annotated[
        float | tuple[float, float, float] | Literal["random", "random_uniform"],
        partial(checked_paint, words=PAINTS[:2]),
    ] = 0.0
    fill_mask: Annotated[int | None, validation.optional(validation.mask_value)] = None
    p: float = 0.5

    @property
    def paint(self) -> Paint:
        """The field ``fill``."""
        return self.fill

    def _params(self, holes: Sizes, key: NDArray[np.uint32]) -> Params:
        """Return the parameters for rectangles; ``key``, uint32 [B, 2], determines a random fill."""
        return hole_params(holes, self.paint, key)


@dataclass(frozen=True)
class RandomErasing(Holes):
    """Paint one random rectangle, with probability ``p``.

    Args:
        p: Probability of painting; an image stays unchanged if none of ten drawn rectangles fits.
        scale: Smallest and largest area of the rectangle, as a share of the image.
        ratio: Smallest and largest height / width of the rectangle; drawn log-uniformly.
        value: The fill, one value or three, in the value range at this step of the recipe:
            [0, 1] before Normalize, normalised after it. "random" is standard normal noise.
        fill_mask: Value of masks in the same rectangle; None leaves masks unchanged.

    Source: torchvision v2 RandomErasing: ten tries, then the image stays unchanged.

    Example:
        >>> Recipe([RandomResizedCrop(224), Normalize(), RandomErasing(p=0.25)]).size
        (224, 224)
    """

    random: ClassVar[Random] = {
        "area": Uniform("scale", _NUM_TRIES),
        "ratio": Law(log_between, "ratio", _NUM_TRIES),
        "start": Numbers(2),
        "key": Numbers(lambda self: 2 * (self.value == "random")),
    }

    p: float = 0.5
    _: KW_ONLY
    scale: Annotated[Range, validation.Interval(low=0, high=1, example="(0.02, 0.33)")] = (
        0.02,
        0.33,
    )
    ratio: Annotated[Range, validation.Interval(low=0, above=True, example="(0.3, 3.3)")] = (
        0.3,
        3.3,
    )
    value: Annotated[
        float | tuple[float, float, float] | Literal["random"],
        partial(checked_paint, words=("random",)),
    ] = 0.0
    fill_mask: Annotated[int | None, validation.optional(validation.mask_value)] = None

    @property
    def paint(self) -> Paint:
        """The field ``value``, with "normal" in place of "random"."""
        return "normal" if self.value == "random" else self.value

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``holes``, what a random fill needs, and ``apply``, which is False if none of the tries fits."""
        area = sizes.prod(axis=1, keepdims=True) * drawn["area"]
        ratio = drawn["ratio"]
        shapes = np.rint(np.sqrt(np.stack([area * ratio, area / ratio], axis=2))).astype(np.int64)

        fits = (shapes < sizes[:, None]).all(axis=2)
        first = fits.argmax(axis=1)
        found = fits.any(axis=1)
        fitting = np.take_along_axis(shapes, first[:, None, None], axis=1)[:, 0]
        shape = np.where(found[:, None], fitting, 0)
        start = whole_below(drawn["start"], sizes - shape + 1)
        seen = np.asarray((shape > 0).all(axis=1))
        holes = np.concatenate([start, start + shape], axis=1)[:, None]
        return {"apply": seen} | hole_params(holes, self.paint, keys(drawn["key"]))


@dataclass(frozen=True)
class Erasing(Dropout):
    """Paint one random rectangle, with probability ``p``, with the distribution of Albumentations.

    Args:
        scale: Smallest and largest area of the rectangle, as a share of the image.
        ratio: Smallest and largest width / height of the rectangle; drawn uniformly.
        fill: See Dropout, also for ``fill_mask`` and ``p``.

    Source: Albumentations Erasing: the area is drawn first, up to the largest one that the ratios allow, then the ratio among
    those that fit. If no ratio fits, nothing is painted.
    """

    random: ClassVar[Random] = {
        "area": Numbers(),
        "ratio": Numbers(),
        "start": Numbers(2),
        "key": Key(),
    }

    scale: Annotated[Range, validation.Interval(low=0, example="(0.02, 0.33)")] = (0.02, 0.33)
    ratio: Annotated[Range, validation.Interval(low=0, above=True, example="(0.3, 3.3)")] = (
        0.3,
        3.3,
    )

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``holes``, what a random fill needs, and ``apply``, which is False if no ratio fits."""
        height, width = sizes.T.astype(np.float64)
        narrow, wide = self.ratio
        least, most = (height * width * share for share in self.scale)
        most = np.minimum(most, np.minimum(narrow * height**2, width**2 / wide))
        area = least + drawn["area"] * np.maximum(most - least, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            highest = np.minimum(wide, width**2 / area)
            lowest = np.maximum(narrow, area / height**2)
            ratio = lowest + drawn["ratio"] * np.maximum(highest - lowest, 0)
            shape = np.rint(np.sqrt(np.stack([area / ratio, area * ratio], axis=1)))
        fits = (most >= least) & (lowest <= highest)
        inside: Sizes = np.where(fits[:, None], np.clip(shape, 0, sizes), 0).astype(np.int64)
        start = whole_below(drawn["start"], sizes - inside + 1)
        seen = np.asarray((inside > 0).all(axis=1))
        holes = np.concatenate([start, start + inside], axis=1)[:, None]
        return {"apply": seen} | self._params(holes, drawn["key"])


def hole_params(holes: Sizes, paint: Paint, key: NDArray[np.uint32]) -> Params:
    """Return the parameters of Holes for rectangles; ``key``, uint32 [B, 2], determines a random fill."""
    params: Params = {"holes": np.ascontiguousarray(holes)}
    if paint == "random_uniform":
        colours = [keyed_uniforms(one, 3 * holes.shape[1]).reshape(-1, 3) for one in key]
        params["colours"] = np.array(colours).reshape(len(holes), -1, 3)
    elif isinstance(paint, str):
        params["key"] = key
    return params


def keyed_uniforms(key: NDArray[np.uint32], count: int) -> Uniforms:
    """Return ``count`` uniform numbers in [0, 1), float64, that a key determines.

    Operations use it if they need more numbers than they know before drawing.
    """
    counter = np.zeros((4, -(-count // 4)), np.uint32)
    counter[0] = np.arange(counter.shape[1])
    counter[3] = 1  # noise of the same key counts otherwise
    words = philox4x32(counter, key).T.ravel()[:count]
    return words.astype(np.float64) * 2.0**-32
