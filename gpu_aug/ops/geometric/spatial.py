"""Families of operations that move pixels, and with them masks, boxes and keypoints.

An engine implements a family, so an operation of a family only has to draw its parameters. Coordinates are continuous, (x, y):
the pixel in row i and column j covers [j, j + 1) x [i, i + 1).
"""

from abc import abstractmethod
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from gpu_aug.draws import Params
from gpu_aug.ops import validation
from gpu_aug.ops.distributions.uniform import Sizes
from gpu_aug.ops.operation import Operation

Matrices = NDArray[np.float64]
"""float64 [B, 3, 3], from points (x, y, 1) to points."""

Interpolation = Literal["nearest", "bilinear", "bicubic"]
PaddingMode = Literal["constant", "edge", "reflect", "symmetric"]
Blend = Literal["once", "twice"]
Pair = Annotated[int | tuple[int, int], validation.height_width]
"""(height, width) in pixels; one number is a square."""

MaskValue = Annotated[int, validation.mask_value]
Fill = Annotated[float | tuple[float, float, float], validation.fill]
"""One value, or one per channel, in the values of this place in the recipe: [0, 1] before Normalize."""


class Spatial(Operation, abstract=True):
    """Base of operations that move pixels.

    Attributes:
        fill: Value outside the image if ``padding_mode`` is "constant".
        fill_mask: Value of masks outside the image if ``padding_mode`` is "constant".
        padding_mode: Values outside the image: "constant" is ``fill``, "edge" repeats the last pixel, "reflect" mirrors without
            it (dcb|abcd|cba), "symmetric" mirrors with it (cba|abcd|dcb).
        interpolation: How images are interpolated; masks always take the nearest pixel.
        blend: How ``fill`` is blended with the image along the border, one pixel wide, of a bilinear Warp or Remap: "once", by
            the bilinear weights, or "twice", by their squares.
    """

    any_channels: ClassVar[bool] = True

    may_pad: ClassVar[bool] = False
    """Whether a crop or a resampling can reach outside the image."""

    fill: Fill = 0.0
    fill_mask: MaskValue = 0
    padding_mode: PaddingMode = "constant"
    interpolation: Interpolation = "bilinear"
    blend: Blend = "once"


class Moving(Spatial, abstract=True):
    """Base of operations that move pixels by one matrix per image, which boxes, keypoints and masks follow."""

    may_mirror: ClassVar[bool] = True
    """Whether the determinant of a matrix can be negative, so that left and right are exchanged."""

    @abstractmethod
    def forward(self, params: Params, sizes: Sizes) -> Matrices:
        """Return the matrices from the input image to the result, float64 [B, 3, 3], in continuous coordinates.

        Rows whose ``apply`` is False may have any matrix.

        Args:
            params: Parameters that ``draw`` returned.
            sizes: Heights and widths of the input images, int64 [B, 2].
        """


class Reorient(Moving, abstract=True):
    """Base of operations that apply one of the eight flips and quarter turns to each image.

    The drawn parameters, bool [B] each and applied in this order, are ``transpose``, ``top_bottom`` and ``left_right``.
    """

    moves_pixels_only: ClassVar[bool] = True
    """Always."""

    def result_size(self, params: Params, sizes: Sizes) -> Sizes:
        """Return the sizes, with height and width swapped for images that are transposed."""
        turned = (params["apply"] & params["transpose"])[:, None]
        return np.where(turned, sizes[:, ::-1], sizes)

    def forward(self, params: Params, sizes: Sizes) -> Matrices:
        """Return the matrices of the transposition and the flips, float64 [B, 3, 3]."""
        matrix = np.broadcast_to(np.eye(3), (len(sizes), 3, 3)).copy()
        matrix[params["transpose"], :2] = matrix[params["transpose"], 1::-1]
        after = np.where(params["transpose"][:, None], sizes[:, ::-1], sizes)
        for axis, flip in enumerate(("left_right", "top_bottom")):  # x, then y
            flipped = params[flip]
            matrix[flipped, axis] *= -1
            matrix[flipped, axis, 2] += after[flipped, 1 - axis]
        return matrix


class ToOneSize(Operation, abstract=True):
    """Base of operations whose results all have the size in the field ``size``."""

    size: Any

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        return np.array([self.size])


class Crop(Moving, abstract=True):
    """Base of operations that crop a rectangle, which is padded outside the image.

    The drawn parameters ``start`` and ``shape``, int64 [B, 2], are the top-left corner and the size of the rectangle.
    """

    may_mirror: ClassVar[bool] = False

    @property
    def moves_pixels_only(self) -> bool:
        """True unless the fill is between two multiples of 1/255."""
        return pads_whole(self)

    def result_size(self, params: Params, sizes: Sizes) -> Sizes:
        """Return the drawn ``shape`` for images that are changed, and ``sizes`` for the others."""
        return np.where(params["apply"][:, None], params["shape"], sizes)

    def forward(self, params: Params, sizes: Sizes) -> Matrices:
        """Return the matrices of the shift, float64 [B, 3, 3]."""
        return scalings(np.ones(sizes.shape), -params["start"])


class Resample(Moving, abstract=True):
    """Base of operations that crop a rectangle and resize it.

    The drawn parameters ``start`` and ``shape``, int64 [B, 2], are the top-left corner and the size of the rectangle,
    which lies inside the image except in the decode stage; ``resize``, int64 [B, 2], is the size of the result.
    """

    may_mirror: ClassVar[bool] = False

    antialias: bool = True

    def result_size(self, params: Params, sizes: Sizes) -> Sizes:
        """Return the drawn ``resize`` for images that are changed, and ``sizes`` for the others."""
        return np.where(params["apply"][:, None], params["resize"], sizes)

    def forward(self, params: Params, sizes: Sizes) -> Matrices:
        """Return the matrices of the shift and the scaling, float64 [B, 3, 3]."""
        scale = params["resize"] / params["shape"]
        return scalings(scale, -params["start"] * scale)


class Warp(Moving, abstract=True):
    """Base of operations that resample along an affine or projective matrix.

    The drawn parameter ``matrix``, float64 [B, 3, 3], leads from the input image to the result in pixel indices: (0, 0)
    is the centre
    of the top-left pixel. A parameter ``shape``, int64 [B, 2], is the size of the result; without it the size stays.
    """

    @property
    def moves_pixels_only(self) -> bool:
        """True for nearest-pixel sampling, unless the fill is between two multiples of 1/255."""
        return self.interpolation == "nearest" and pads_whole(self)

    def result_size(self, params: Params, sizes: Sizes) -> Sizes:
        """Return the drawn ``shape``, if there is one, for images that are changed, and ``sizes`` for the others."""
        return np.where(params["apply"][:, None], params.get("shape", sizes), sizes)

    def forward(self, params: Params, sizes: Sizes) -> Matrices:
        """Return the drawn matrices, float64 [B, 3, 3], in coordinates whose origin is the corner of the first pixel."""
        to_corner, to_center = np.eye(3), np.eye(3)
        to_corner[:2, 2], to_center[:2, 2] = 0.5, -0.5
        moved: Matrices = to_corner @ params["matrix"] @ to_center
        return moved


class Remap(Spatial, abstract=True):
    """Base of operations that resample along a displacement field; the size stays."""

    @property
    def moves_pixels_only(self) -> bool:
        """True for nearest-pixel sampling, unless the fill is between two multiples of 1/255."""
        return self.interpolation == "nearest" and pads_whole(self)

    @abstractmethod
    def displacement(
        self, params: Params, size: tuple[int, int], device: torch.device
    ) -> torch.Tensor:
        """Return the displacement (dx, dy) in pixels, float32 [B, 2, H, W]: result(x, y) = source(x + dx, y + dy).

        Args:
            params: Parameters that ``draw`` returned, or rows of them.
            size: Height and width of the images.
            device: Device of the result. The values are equal on all devices but for rounding.
        """


def pads_whole(operation: Spatial) -> bool:
    """Return whether values outside the image are multiples of 1/255, provided that those inside are."""
    fills = np.atleast_1d(operation.fill) * 255
    return operation.padding_mode != "constant" or bool(
        (np.abs(fills - np.rint(fills)) < 1e-6).all()
    )


def scalings(scale: NDArray[np.float64], shift: NDArray[np.float64]) -> Matrices:
    """Return matrices, float64 [B, 3, 3], that scale and then shift; both arguments are float64 [B, 2] in (y, x)."""
    matrix = np.zeros((len(scale), 3, 3))
    matrix[:, [0, 1], [0, 1]] = scale[:, ::-1]
    matrix[:, :2, 2] = shift[:, ::-1]
    matrix[:, 2, 2] = 1
    return matrix
