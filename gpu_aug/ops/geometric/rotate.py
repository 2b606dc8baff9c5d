"""Rotations about the centre that keep the size, crop to the visible part, or expand the canvas."""

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpu_aug.draws import Params
from gpu_aug.ops.distributions.columns import Drawn, Random, Uniform
from gpu_aug.ops.distributions.uniform import Range, Sizes, Uniforms
from gpu_aug.ops.geometric.affine import CENTER, RandomAffine, affine_matrices, angles
from gpu_aug.ops.geometric.spatial import Matrices, Warp
from gpu_aug.ops.geometric.warps import WarpWithBorder, about, centers, extremes, turns

__all__ = ["RandomRotation", "Rotate", "SafeRotate"]

_TOLERANCE = 1e-4  # of a pixel, torchvision's when it counts the pixels of an expanded image
_SMALL = 1e-10  # Albumentations' idea of an angle of 45 degrees


class _Rotation(WarpWithBorder, Warp, abstract=True):
    """Base of rotations by a drawn ``angle`` in degrees, counter-clockwise."""

    tolerance: ClassVar[float] = RandomAffine.tolerance
    may_mirror: ClassVar[bool] = False

    @abstractmethod
    def turned(self, angle: Uniforms, sizes: Sizes) -> Params:
        """Return ``matrix``, float64 [B, 3, 3], and ``shape``, if the size changes, for angles [B]; see Warp."""

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return the parameters of ``turned`` for the drawn angles."""
        return self.turned(drawn["angle"], sizes)

    def sizes_over(self, ends: Any, sizes: Sizes) -> Sizes:
        """Return the smallest and largest ``shape`` over a range of angles, and ``sizes`` themselves unless ``p`` is 1."""
        angle = np.linspace(ends[0], ends[1], 361)
        turned = [
            extremes(self.turned(angle, np.repeat(size[None], 361, axis=0))["shape"])
            for size in sizes
        ]
        return np.concatenate([*turned, *([sizes] if self.p < 1 else [])])


@dataclass(frozen=True)
class RandomRotation(_Rotation):
    """Rotate about a centre.

    Args:
        degrees: Range of the counter-clockwise angle in degrees; one number ``x`` means (-x, x).
        expand: Whether the size of the result is that of the full rotated image.
        center: Centre (x, y) in pixels from the top-left corner; None means the image's centre.
        interpolation: See WarpWithBorder.
        padding_mode: See WarpWithBorder.
        fill: See WarpWithBorder.
        fill_mask: See WarpWithBorder.
        blend: See WarpWithBorder.
        p: Share of the images that are changed.

    Source: torchvision v2 RandomRotation, whose default interpolation is "nearest"; ``p`` is torchvision's RandomApply around it.
    """

    random: ClassVar[Random] = {"angle": Uniform("degrees")}

    degrees: Annotated[float | Range, angles]
    _: KW_ONLY
    expand: bool = False
    center: Annotated[tuple[float, float] | None, CENTER] = None

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Return ``sizes``; with ``expand`` the smallest and largest size over the range of angles."""
        return self.sizes_over(self.degrees, sizes) if self.expand else sizes

    def turned(self, angle: Uniforms, sizes: Sizes) -> Params:
        center = (
            centers(sizes) if self.center is None else np.full((len(sizes), 2), self.center) - 0.5
        )
        matrix = about(center, turns(-np.radians(angle)))
        if not self.expand:
            return {"matrix": matrix}
        # torchvision first moves the middle of the image to that of the result, then turns about the centre.
        shape = _expanded(matrix, sizes)
        if self.center is None:  # it turns pictures by quarters without its rule for sizes
            shape = np.where((angle % 180 == 90)[:, None], sizes[:, ::-1], shape)
        matrix[:, :2, 2] += centers(shape) - centers(sizes)
        return {"matrix": matrix, "shape": shape}


@dataclass(frozen=True)
class Rotate(_Rotation):
    """Rotate about the image's centre, as Albumentations does.

    Args:
        limit: Range of the counter-clockwise angle in degrees; one number ``x`` means (-x, x).
        crop_border: Whether the result is cropped to the largest upright rectangle without padding.
        interpolation: See WarpWithBorder.
        padding_mode: See WarpWithBorder.
        fill: See WarpWithBorder.
        fill_mask: See WarpWithBorder.
        blend: See WarpWithBorder.
        p: Share of the images that are changed.

    Source: Albumentations 2.0.8 Rotate.
    """

    random: ClassVar[Random] = {"angle": Uniform("limit")}

    limit: Annotated[float | Range, angles] = (-90.0, 90.0)
    _: KW_ONLY
    crop_border: bool = False
    p: float = 0.5

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Return ``sizes``; with ``crop_border`` the smallest and largest size over the range of angles."""
        return self.sizes_over(self.limit, sizes) if self.crop_border else sizes

    def turned(self, angle: Uniforms, sizes: Sizes) -> Params:
        matrix = affine_matrices(sizes, rotate=angle)
        if not self.crop_border:
            return {"matrix": matrix}
        start, stop = _largest_inside(np.radians(angle), sizes)
        matrix[:, :2, 2] -= start[:, ::-1]
        return {"matrix": matrix, "shape": np.maximum(stop - start, 1)}


@dataclass(frozen=True)
class SafeRotate(_Rotation):
    """Rotate, and scale the full rotated image to the size of the image.

    Width and height are scaled separately, so an image that is not square is distorted.

    Args:
        limit: Range of the counter-clockwise angle in degrees; one number ``x`` means (-x, x).
        interpolation: See WarpWithBorder.
        padding_mode: See WarpWithBorder.
        fill: See WarpWithBorder.
        fill_mask: See WarpWithBorder.
        blend: See WarpWithBorder.
        p: Share of the images that are changed.

    Source: Albumentations 2.0.8 SafeRotate, including its shift by half a pixel: the centre of the image moves to the corner of
    four pixels. Boxes and keypoints follow the pixels.
    """

    random: ClassVar[Random] = {"angle": Uniform("limit")}

    limit: Annotated[float | Range, angles] = (-90.0, 90.0)
    _: KW_ONLY
    p: float = 0.5

    def turned(self, angle: Uniforms, sizes: Sizes) -> Params:
        """Return ``matrix``, float64 [B, 3, 3]; see Warp."""
        angle = np.radians(angle)
        extent = sizes[:, ::-1].astype(np.float64)
        cos, sin = np.abs(np.cos(angle)), np.abs(np.sin(angle))
        width, height = extent.T
        grown = np.stack([height * sin + width * cos, height * cos + width * sin], axis=1)
        grown = np.maximum(np.trunc(grown), 1)
        matrix = about(centers(sizes), turns(-angle))
        matrix[:, :2, 2] += grown / 2 - centers(sizes)
        matrix[:, :2] *= (extent / grown)[:, :, None]
        return {"matrix": matrix}


def _expanded(matrix: Matrices, sizes: Sizes) -> Sizes:
    """Return the sizes of full rotated images as torchvision computes them, in float32."""
    half = sizes[:, ::-1] / 2
    signs = np.array([[-1, -1], [-1, 1], [1, 1], [1, -1]])
    corners = np.concatenate([half[:, None] * signs, np.ones((len(sizes), 4, 1))], axis=2)
    back = np.linalg.inv(matrix)[:, :2]
    middle = centers(sizes)
    # The same matrix between coordinates from the middle of the image.
    back[:, :, 2] += (back[:, :, :2] @ middle[:, :, None])[:, :, 0] - middle
    moved = corners.astype(np.float32) @ back.astype(np.float32).transpose(0, 2, 1)
    ends = (moved.max(axis=1), moved.min(axis=1))
    high, low = (
        np.trunc((end + half.astype(np.float32)) * np.float32(1 / _TOLERANCE))
        * np.float32(_TOLERANCE)
        for end in ends
    )
    expanded: Sizes = (np.ceil(high) - np.floor(low))[:, ::-1].astype(np.int64)
    return expanded


def _largest_inside(angle: Uniforms, sizes: Sizes) -> tuple[Sizes, Sizes]:
    """Return top-left and bottom-right corners, int64 [B, 2] each, of the largest upright rectangles in rotated images."""
    height, width = sizes.T.astype(np.float64)
    wide = width >= height
    longer, shorter = np.maximum(width, height), np.minimum(width, height)
    sin, cos = np.abs(np.sin(angle)), np.abs(np.cos(angle))
    # Two corners touch the longer side, or all four corners touch a side.
    two = (shorter <= 2 * sin * cos * longer) | (np.abs(sin - cos) < _SMALL)
    with np.errstate(divide="ignore", invalid="ignore"):
        by_sin, by_cos = 0.5 * shorter / sin, 0.5 * shorter / cos
        double = cos * cos - sin * sin
        across = np.where(
            two, np.where(wide, by_sin, by_cos), (width * cos - height * sin) / double
        )
        down = np.where(two, np.where(wide, by_cos, by_sin), (height * cos - width * sin) / double)
    size: NDArray[np.float64] = np.stack([down, across], axis=1)
    start = np.maximum(np.trunc(sizes / 2 - size / 2), 0).astype(np.int64)
    stop = np.minimum(np.trunc(sizes / 2 + size / 2), sizes).astype(np.int64)
    return start, stop
