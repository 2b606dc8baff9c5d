"""The families of operations that move pixels, and with them masks, boxes and keypoints.

An engine carries out a family, so an operation of a known family needs nothing but its draw.
Coordinates are continuous, (x, y): the pixel in row i and column j covers [j, j + 1) x [i, i + 1).
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
    """An operation that moves pixels.

    Attributes:
        fill: Value outside the image where ``padding_mode`` is "constant".
        fill_mask: The same for masks.
        padding_mode: Values outside the image: "constant" is ``fill``, "edge" repeats the last
            pixel, "reflect" mirrors without it (dcb|abcd|cba), "symmetric" with it (cba|abcd|dcb).
        interpolation: How images are resampled; masks are always resampled "nearest".
        blend: How ``fill`` mixes with the image in the seam, one pixel wide, of a bilinear Warp or
            Remap: "once", by the bilinear weights, or "twice", by their squares.
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
    """A move that is one matrix per image, which boxes, keypoints and masks follow."""

    @abstractmethod
    def forward(self, params: Params, sizes: Sizes) -> Matrices:
        """Return the matrices from the image before to the image after, in continuous coordinates.

        Args:
            params: The result of ``draw``.
            sizes: int64 [B, 2], sizes before.

        Rows whose ``apply`` is off may hold anything.
        """


class Reorient(Moving, abstract=True):
    """One of the eight mirrorings and quarter turns per image.

    Its draw has, bool [B] each and carried out in this order, ``transpose``, ``top_bottom`` and
    ``left_right``.
    """

    moves_pixels_only: ClassVar[bool] = True
    """Always."""

    def result_size(self, params: Params, sizes: Sizes) -> Sizes:
        """Height and width are swapped where the image is transposed."""
        turned = (params["apply"] & params["transpose"])[:, None]
        return np.where(turned, sizes[:, ::-1], sizes)

    def forward(self, params: Params, sizes: Sizes) -> Matrices:
        """Transpose, then flip within the new size."""
        matrix = np.broadcast_to(np.eye(3), (len(sizes), 3, 3)).copy()
        matrix[params["transpose"], :2] = matrix[params["transpose"], 1::-1]
        after = np.where(params["transpose"][:, None], sizes[:, ::-1], sizes)
        for axis, flip in enumerate(("left_right", "top_bottom")):  # x, then y
            flipped = params[flip]
            matrix[flipped, axis] *= -1
            matrix[flipped, axis, 2] += after[flipped, 1 - axis]
        return matrix


class ToOneSize(Operation, abstract=True):
    """An operation whose results all have the size of its field ``size``."""

    size: Any

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        return np.array([self.size])


class Crop(Moving, abstract=True):
    """Keeps a rectangle, padded outside the image.

    Its draw has ``start`` and ``shape``, int64 [B, 2]: top-left corner and size.
    """

    @property
    def moves_pixels_only(self) -> bool:
        """Unless the padding has a value between two whole 1/255."""
        return pads_whole(self)

    def result_size(self, params: Params, sizes: Sizes) -> Sizes:
        """The drawn shape."""
        return np.where(params["apply"][:, None], params["shape"], sizes)

    def forward(self, params: Params, sizes: Sizes) -> Matrices:
        """A shift."""
        return scalings(np.ones(sizes.shape), -params["start"])


class Resample(Moving, abstract=True):
    """Cuts a rectangle out of the image and resamples it to another size.

    Its draw has ``start`` and ``shape``, int64 [B, 2]: the rectangle, inside the image unless in
    the decode stage; and ``resize``, int64 [B, 2]: the size it becomes.
    """

    antialias: bool = True

    def result_size(self, params: Params, sizes: Sizes) -> Sizes:
        """The drawn size."""
        return np.where(params["apply"][:, None], params["resize"], sizes)

    def forward(self, params: Params, sizes: Sizes) -> Matrices:
        """A shift and a scaling."""
        scale = params["resize"] / params["shape"]
        return scalings(scale, -params["start"] * scale)


class Warp(Moving, abstract=True):
    """Resamples along a matrix: affine or projective.

    Its draw has ``matrix``, float64 [B, 3, 3], from the image before to the image after in pixel
    indices: (0, 0) is the centre of the top-left pixel. It may have ``shape``, int64 [B, 2], the
    size after; else the size stays.
    """

    @property
    def moves_pixels_only(self) -> bool:
        """Where it takes the nearest pixel, unless the padding lies between two whole 1/255."""
        return self.interpolation == "nearest" and pads_whole(self)

    def result_size(self, params: Params, sizes: Sizes) -> Sizes:
        """The drawn shape, if there is one."""
        return np.where(params["apply"][:, None], params.get("shape", sizes), sizes)

    def forward(self, params: Params, sizes: Sizes) -> Matrices:
        """The drawn matrix between pixel corners instead of pixel centres."""
        to_corner, to_center = np.eye(3), np.eye(3)
        to_corner[:2, 2], to_center[:2, 2] = 0.5, -0.5
        moved: Matrices = to_corner @ params["matrix"] @ to_center
        return moved


class Remap(Spatial, abstract=True):
    """Resamples along a field of displacements; the size stays."""

    @property
    def moves_pixels_only(self) -> bool:
        """Where it takes the nearest pixel, unless the padding lies between two whole 1/255."""
        return self.interpolation == "nearest" and pads_whole(self)

    @abstractmethod
    def displacement(
        self, params: Params, size: tuple[int, int], device: torch.device
    ) -> torch.Tensor:
        """Return float32 [B, 2, H, W], (dx, dy) in pixels: result(x, y) = source(x + dx, y + dy).

        Args:
            params: The result of ``draw``, or rows of it.
            size: Height and width of the images.
            device: Device of the result. Its values are the same on every device but for rounding.
        """


def pads_whole(operation: Spatial) -> bool:
    """Whether values outside the image are multiples of 1/255, if those of the image are."""
    fills = np.atleast_1d(operation.fill) * 255
    return operation.padding_mode != "constant" or bool(
        (np.abs(fills - np.rint(fills)) < 1e-6).all()
    )


def scalings(scale: NDArray[np.float64], shift: NDArray[np.float64]) -> Matrices:
    """Return matrices that scale, then shift; both are float64 [B, 2], in (y, x)."""
    matrix = np.zeros((len(scale), 3, 3))
    matrix[:, [0, 1], [0, 1]] = scale[:, ::-1]
    matrix[:, :2, 2] = shift[:, ::-1]
    matrix[:, 2, 2] = 1
    return matrix
