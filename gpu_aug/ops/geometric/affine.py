"""Affine warps: rotation, translation, scale and shear as one matrix."""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from gpu_aug.draws import Params
from gpu_aug.ops import validation
from gpu_aug.ops.distributions.columns import Drawn, Numbers, Random, Uniform
from gpu_aug.ops.distributions.uniform import Range, Sizes, Uniforms, between, whole_between
from gpu_aug.ops.geometric.spatial import Matrices, Warp
from gpu_aug.ops.geometric.warps import (
    Ranges,
    WarpWithBorder,
    about,
    centers,
    extremes,
    turns,
    xy_ranges,
)

__all__ = ["Affine", "RandomAffine"]


def angles(operation: str, field: str, value: Any) -> tuple[float, float]:
    """Check a range of angles in degrees, given as (smallest, largest) or as one number ``x`` for (-x, x); return the range."""
    return validation.interval(
        operation, field, value, low=-360, high=360, around=0, example="10 or (-10, 10)"
    )


CENTER = validation.optional(partial(validation.numbers, count=2, example="(112, 112)"))
"""The check of a centre, (x, y), or None."""


def _shears(operation: str, field: str, value: Any) -> tuple[float, ...]:
    if not validation.is_sequence(value, 4):
        return (*angles(operation, field, value or 0.0), 0.0, 0.0)
    x, y = value[:2], value[2:]
    return angles(operation, field, x) + angles(operation, field, y)


def _shares(operation: str, field: str, value: Any) -> tuple[float, ...]:
    """Check two shares from 0 to 1, with None for (0, 0); return them."""
    shares = validation.numbers(operation, field, value or (0, 0), count=2, example="(0.1, 0.1)")
    if not all(0 <= share <= 1 for share in shares):
        raise validation.fault(
            operation, field, value, "shares from 0 to 1, for example (0.1, 0.1)"
        )
    return shares


def _scales(operation: str, field: str, value: Any) -> tuple[float, float]:
    ends = value or (1, 1)
    return validation.interval(operation, field, ends, low=0, above=True, example="(0.8, 1.2)")


def _factors(operation: str, field: str, value: Any) -> Ranges:
    """Check the ranges of factors along x and y, from 0 and reaching above 0; return them."""
    along = xy_ranges(operation, field, value, low=0, example="(0.8, 1.2)")
    if min(largest for _, largest in along) <= 0:
        raise validation.fault(operation, field, along, "above 0, for example (0.8, 1.2)")
    return along


def _shifts(operation: str, field: str, value: Any) -> Any:
    ranges = xy_ranges(operation, field, value, low=-np.inf, example="(-10, 10)")
    return tuple((int(first), int(last)) for first, last in ranges)


@dataclass(frozen=True)
class RandomAffine(WarpWithBorder, Warp):
    """Rotate, translate, scale and shear about a centre.

    Args:
        degrees: Range of the clockwise rotation in degrees; one number ``x`` means (-x, x).
        translate: Largest shift in x and in y, as shares of width and height. The drawn shift is rounded to whole pixels.
        scale: Range of the scale factor.
        shear: Ranges of the shear in degrees: one number ``x`` means (-x, x) along x, two numbers are a range along x, four are
            a range along x and one along y.
        center: Centre (x, y) in pixels from the top-left corner; None means the image's centre.
        interpolation: See WarpWithBorder.
        padding_mode: See WarpWithBorder.
        fill: See WarpWithBorder.
        fill_mask: See WarpWithBorder.
        blend: See WarpWithBorder.
        p: Share of the images that are changed.

    Source: torchvision v2 RandomAffine, whose default interpolation is "nearest"; ``p`` is torchvision's RandomApply around it.
    """

    # Measured 0.005 on noise and photographs; 0.03 at 700 x 1000, as both compute in float32.
    tolerance: ClassVar[float] = 0.05
    may_mirror: ClassVar[bool] = False

    random: ClassVar[Random] = {
        "degrees": Uniform(),
        "translate": Numbers(2),
        "scale": Uniform(),
        "shear": Numbers(2),
    }

    degrees: Annotated[float | Range, angles]
    translate: Annotated[tuple[float, float] | None, _shares] = None
    scale: Annotated[tuple[float, float] | None, _scales] = None
    shear: Annotated[float | tuple[float, ...] | None, _shears] = None
    _: KW_ONLY
    center: Annotated[tuple[float, float] | None, CENTER] = None

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``matrix``, float64 [B, 3, 3]; see Warp."""
        shear = cast("tuple[float, ...]", self.shear)
        furthest = sizes[:, ::-1] * np.array(self.translate)
        rotate = turns(np.radians(drawn["degrees"]))
        along_x = _sheared(np.radians(between(drawn["shear"][:, 0], shear[:2])), 0)
        along_y = _sheared(np.radians(between(drawn["shear"][:, 1], shear[2:])), 1)
        matrix = about(
            centers(sizes) if self.center is None else np.full((len(sizes), 2), self.center) - 0.5,
            drawn["scale"][:, None, None] * (rotate @ (along_y @ along_x)),
        )
        matrix[:, :2, 2] += np.rint((2 * drawn["translate"] - 1) * furthest)
        return {"matrix": matrix}


@dataclass(frozen=True)
class Affine(WarpWithBorder, Warp):
    """Scale, rotate, shear and translate about the image's centre, as Albumentations does.

    For fields with ranges, a number is a fixed value, a pair is a range that is drawn separately for x and y, and two pairs are a
    range for x and one for y; {"x": ..., "y": ...} is accepted too.

    Args:
        scale: Ranges of the scale factors in x and y.
        translate_percent: Ranges of the shift as a share of width and height; the shift is rounded towards 0 to whole pixels.
        translate_px: Ranges of the shift in whole pixels, in place of ``translate_percent``.
        rotate: Range of the counter-clockwise rotation in degrees; one number is a fixed angle.
        shear: Ranges of the shear in degrees.
        fit_output: Whether the size of the result is chosen such that the full warped image fits.
        keep_ratio: Whether y is scaled by the factor of x.
        balanced_scale: Whether shrinking and growing are equally likely, if ``scale`` allows both.
        interpolation: See WarpWithBorder.
        padding_mode: See WarpWithBorder.
        fill: See WarpWithBorder.
        fill_mask: See WarpWithBorder.
        blend: See WarpWithBorder.
        p: Share of the images that are changed.

    Source: Albumentations 2.0.8 Affine. Its ShiftScaleRotate is this operation with ``translate_percent``, ``scale``
    and ``rotate``.
    """

    tolerance: ClassVar[float] = RandomAffine.tolerance

    random: ClassVar[Random] = {
        "shift": Numbers(2),
        "shear": Numbers(2),
        "scale": Numbers(4),
        "rotate": Uniform(),
    }

    scale: Annotated[Any, _factors] = 1.0
    translate_percent: Annotated[
        Any, validation.optional(partial(xy_ranges, low=-np.inf, example="(-0.1, 0.1)"))
    ] = None
    translate_px: Annotated[Any, validation.optional(_shifts)] = None
    rotate: Annotated[float | Range, validation.OneOrTwo(low=-np.inf, example="(-45, 45)")] = 0.0
    shear: Annotated[Any, partial(xy_ranges, low=-np.inf, example="(-10, 10)")] = 0.0
    _: KW_ONLY
    fit_output: bool = False
    keep_ratio: bool = False
    balanced_scale: bool = False
    p: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        name = "Affine"
        if self.translate_percent is not None and self.translate_px is not None:
            raise validation.fault(
                name, "translate_px", self.translate_px, "None where translate_percent is given"
            )
        if self.keep_ratio and self.scale[0] != self.scale[1]:
            allowed = "alike for x and y with keep_ratio=True"
            raise validation.fault(name, "scale", self.scale, allowed)

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``matrix``, float64 [B, 3, 3], and with ``fit_output`` also ``shape``; see Warp."""
        shear = cast("Ranges", self.shear)
        matrix = affine_matrices(
            sizes,
            shift=np.stack(
                [self._shift(drawn["shift"][:, axis], sizes, axis) for axis in (0, 1)], axis=1
            ),
            shear=np.stack(
                [-between(drawn["shear"][:, axis], shear[axis]) for axis in (0, 1)], axis=1
            ),
            scale=self._scales(drawn["scale"]),
            rotate=drawn["rotate"],
        )
        return _fitted(matrix, sizes) if self.fit_output else {"matrix": matrix}

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Return ``sizes``; with ``fit_output`` also the smallest and largest size of many draws."""
        if not self.fit_output:
            return sizes
        u = np.random.default_rng(0).random((256, self.num_uniforms))
        drawn = [self.draw(u, np.repeat(size[None], 256, axis=0))["shape"] for size in sizes]
        return np.concatenate([sizes, extremes(np.concatenate(drawn))])

    def _shift(self, u: Uniforms, sizes: Sizes, axis: int) -> Any:
        if self.translate_percent is not None:
            share = between(u, self.translate_percent[axis])
            return np.trunc(share * sizes[:, 1 - axis])
        return 0 * u if self.translate_px is None else whole_between(u, self.translate_px[axis])

    def _scales(self, u: Uniforms) -> NDArray[np.float64]:
        drawn = []
        for axis, (low, high) in enumerate(cast("Ranges", self.scale)):
            side, share = u[:, axis], u[:, 2 + axis]
            if not self.balanced_scale:
                drawn.append(between(share, (low, high)))
                continue
            below, above = between(share, (low, 1.0)), between(share, (1.0, high))
            shrinks = (side < 0.5) if high > 1 else np.ones(len(u), bool)
            drawn.append(np.where(shrinks if low < 1 else False, below, above if high > 1 else 1.0))
        if self.keep_ratio:
            drawn[1] = drawn[0]
        return np.stack(drawn, axis=1)


def affine_matrices(
    sizes: Sizes,
    *,
    rotate: Uniforms,
    shift: Any = 0.0,
    shear: NDArray[np.float64] | None = None,
    scale: NDArray[np.float64] | None = None,
) -> Matrices:
    """Return matrices that scale, rotate and shear about the image's centre, then shift, as Albumentations does.

    Args:
        sizes: Heights and widths of the images, int64 [B, 2].
        rotate: Counter-clockwise rotations in degrees, float64 [B].
        shift: Shifts in (x, y), in pixels, float64 [B, 2].
        shear: Shears in (x, y), in degrees, float64 [B, 2]; None means no shear.
        scale: Scale factors in (x, y), float64 [B, 2]; None means 1.
    """
    linear = turns(-np.radians(rotate % 360))
    if scale is not None:
        linear = linear * scale[:, None, :]
    if shear is not None:
        tangents = np.tan(np.radians(shear))
        sheared = np.broadcast_to(np.eye(2), linear.shape).copy()
        sheared[:, [0, 1], [1, 0]] = tangents
        linear = sheared @ linear
    matrix = about(centers(sizes), linear)
    matrix[:, :2, 2] += shift
    return matrix


def _fitted(matrix: Matrices, sizes: Sizes) -> Params:
    """Return ``matrix`` and ``shape`` such that the full warped image fits, with Albumentations' rounding."""
    height, width = sizes.T.astype(np.float64)
    zero, one = np.zeros_like(height), np.ones_like(height)
    corners = np.stack(
        [
            np.stack([zero, zero, one]),
            np.stack([width, zero, one]),
            np.stack([width, height, one]),
            np.stack([zero, height, one]),
        ]
    ).transpose(2, 0, 1)
    moved = (corners @ matrix.transpose(0, 2, 1))[:, :, :2]
    low, high = np.floor(moved.min(axis=1)), np.ceil(moved.max(axis=1))
    fitted = matrix.copy()
    fitted[:, :2, 2] -= low
    shape = (high - low + 1)[:, ::-1].astype(np.int64)
    # Albumentations returns the image itself if the matrix changes nothing.
    same = np.abs(fitted - np.eye(3)).reshape(-1, 9).max(axis=1) <= 1e-8
    return {"matrix": fitted, "shape": np.where(same[:, None], sizes, shape)}


def _sheared(angle: Uniforms, axis: int) -> NDArray[np.float64]:
    """Return matrices, float64 [B, 2, 2], that shear along x (axis 0) or y (axis 1) by angles in radians."""
    matrix = np.broadcast_to(np.eye(2), (len(angle), 2, 2)).copy()
    matrix[:, axis, 1 - axis] = -np.tan(angle)
    return matrix
