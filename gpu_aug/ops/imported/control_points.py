"""Distortions that control points define, which are moved at random."""

from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from typing import Annotated, Any, ClassVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpu_aug.draws import Params
from gpu_aug.ops import validation
from gpu_aug.ops.distributions.columns import Drawn, Integer, Numbers, Random, Uniform
from gpu_aug.ops.distributions.uniform import Range, Sizes
from gpu_aug.ops.geometric.spatial import Remap
from gpu_aug.ops.geometric.warps import WarpWithBorder, normals, pixel_indices
from gpu_aug.ops.imported.distortion import GridDistortion
from gpu_aug.upload import upload

__all__ = ["PiecewiseAffine", "ThinPlateSpline"]

_NOWHERE = 1e150
"""Where control points lie that a sample has not got: their weight is 0."""


def _scales(operation: str, field: str, value: Any) -> tuple[float, float]:
    ends = validation.one_or_two(operation, field, value, low=0, example="(0.03, 0.05)")
    if ends[1] == 0:
        raise validation.fault(operation, field, value, "above 0, for example (0.03, 0.05)")
    return ends


@dataclass(frozen=True)
class PiecewiseAffine(WarpWithBorder, Remap):
    """Move the points of a grid at random, and map every pixel to the weighted mean of all moved points.

    The weights are the inverse square distances from the pixel, so the image is contracted towards its middle even if
    no point moves.

    Args:
        scale: Range of the points' jitter, as a share of the shorter side, above 0; the standard deviation is a third of it. One
            number is a fixed value.
        nb_rows: Range of the number of rows of points, from 2; one number is both ends.
        nb_cols: Range of the number of columns of points, from 2; one number is both ends.
        absolute_scale: Whether ``scale`` is in pixels.
        interpolation: See WarpWithBorder.
        padding_mode: See WarpWithBorder.
        fill: See WarpWithBorder.
        fill_mask: See WarpWithBorder.
        blend: See WarpWithBorder.
        p: Share of the images that are changed.

    Source: Albumentations 2.0.8 PiecewiseAffine; other libraries use the name for another operation.
    """

    tolerance: ClassVar[float] = GridDistortion.tolerance

    random: ClassVar[Random] = {
        "num_rows": Integer("nb_rows"),
        "num_columns": Integer("nb_cols"),
        "deviation": Uniform("scale"),
        "jitter": Numbers(lambda self: 2 * self._most),
    }

    scale: Annotated[float | Range, _scales] = (0.03, 0.05)
    nb_rows: Annotated[int | tuple[int, int], validation.IntegerRange(low=2, example="(4, 4)")] = (
        4,
        4,
    )
    nb_cols: Annotated[int | tuple[int, int], validation.IntegerRange(low=2, example="(4, 4)")] = (
        4,
        4,
    )
    _: KW_ONLY
    absolute_scale: bool = False
    p: float = 0.5

    @property
    def _most(self) -> int:
        return cast("tuple[int, int]", self.nb_rows)[1] * cast("tuple[int, int]", self.nb_cols)[1]

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``points`` and ``moved``, float64 [B, n, 2]: (x, y) before and after the move, in pixel indices."""
        num_rows = drawn["num_rows"][:, None]
        num_columns = drawn["num_columns"][:, None]
        deviation = drawn["deviation"] / 3
        if not self.absolute_scale:
            deviation = deviation * sizes.min(axis=1)
        furthest = (sizes[:, ::-1] - 1).astype(np.float64)
        number = np.arange(self._most)[None]
        column, row = number % num_columns, number // num_columns
        points = np.stack(
            [
                furthest[:, :1] * column / (num_columns - 1),
                furthest[:, 1:] * row / (num_rows - 1),
            ],
            axis=2,
        )
        jitter = normals(drawn["jitter"]).reshape(len(sizes), -1, 2) * deviation[:, None, None]
        moved = np.clip(points + jitter, 0, furthest[:, None])
        points[number >= num_rows * num_columns] = _NOWHERE
        return {"points": points, "moved": moved}

    def displacement(self, params: Params, size: tuple[int, int], device: torch.device) -> Tensor:
        """Return the displacement field, float32 [B, 2, H, W]; see Remap."""
        x, y = pixel_indices(size, device)
        points, moved = (upload(params[name], device) for name in ("points", "moved"))
        total = sum_x = sum_y = torch.zeros((), dtype=torch.float64, device=device)
        for number in range(points.shape[1]):
            from_x, from_y, to_x, to_y = (
                plane[:, number, axis, None, None] for plane in (points, moved) for axis in (0, 1)
            )
            weight = 1 / ((x - from_x) ** 2 + (y - from_y) ** 2 + 1e-8)
            total = total + weight
            sum_x, sum_y = sum_x + weight * to_x, sum_y + weight * to_y
        return torch.stack([sum_x / total - x, sum_y / total - y], dim=1).float()


@lru_cache(maxsize=64)
def _control_points(num: int) -> NDArray[np.float64]:
    """Return the control points of a grid with ``num`` rows, float64 [n, 2] in (x, y), as shares of the sides."""
    if num == 2:
        return np.array([[0, 0], [0, 1], [1, 0], [1, 1], [0.5, 0.5]])
    line = np.linspace(0, 1, num)
    return np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)


@dataclass(frozen=True)
class ThinPlateSpline(WarpWithBorder, Remap):
    """Move the points of a grid at random, and bend the image along with them.

    Args:
        scale_range: Range of the points' jitter, as a share of the sides, from 0 to 1; the standard deviation is a tenth of it.
        num_control_points: Number of rows and of columns of points, at least 2; 2 means the four corners and the centre.
        interpolation: See WarpWithBorder.
        padding_mode: See WarpWithBorder.
        fill: See WarpWithBorder.
        fill_mask: See WarpWithBorder.
        blend: See WarpWithBorder.
        p: Share of the images that are changed.

    Source: Albumentations 2.0.8 ThinPlateSpline. It solves for the weights of d**4 log d**2 and applies them to d**2
    log d**2, so the points do not move exactly to where they were drawn.
    """

    tolerance: ClassVar[float] = GridDistortion.tolerance

    random: ClassVar[Random] = {
        "deviation": Uniform("scale_range"),
        "jitter": Numbers(lambda self: 2 * len(_control_points(self.num_control_points))),
    }

    scale_range: Annotated[Range, validation.Interval(low=0, high=1, example="(0.2, 0.4)")] = (
        0.2,
        0.4,
    )
    num_control_points: Annotated[int, validation.Integer(low=2, example="4")] = 4
    _: KW_ONLY
    p: float = 0.5

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``moved``, float64 [B, n, 2]: (x, y) of the moved points as shares of the sides."""
        deviation = drawn["deviation"] / 10
        jitter = normals(drawn["jitter"]).reshape(len(sizes), -1, 2) * deviation[:, None, None]
        return {"moved": _control_points(self.num_control_points) + jitter}

    def displacement(self, params: Params, size: tuple[int, int], device: torch.device) -> Tensor:
        """Return the displacement field, float32 [B, 2, H, W]; see Remap."""
        height, width = size
        solution = upload(_spline_solver(self.num_control_points) @ params["moved"], device)
        weights = solution[:, :, :, None, None]  # [B, n + 3, 2, 1, 1]
        x, y = pixel_indices(size, device)
        share_x, share_y = x / width, y / height
        points = _control_points(self.num_control_points)
        first = len(points)
        moved = (
            weights[:, first]
            + weights[:, first + 1] * share_x[:, None]
            + weights[:, first + 2] * share_y[:, None]
        )
        for number, (point_x, point_y) in enumerate(points.tolist()):
            distance = (share_x - point_x) ** 2 + (share_y - point_y) ** 2
            moved = moved + weights[:, number] * (distance * (distance + 1e-6).log())[:, None]
        return torch.stack([moved[:, 0] * width - x, moved[:, 1] * height - y], dim=1).float()


@lru_cache(maxsize=64)
def _spline_solver(num: int) -> NDArray[np.float64]:
    """Return the matrix [n + 3, n] that maps moved points to the coefficients of the spline.

    The first n coefficients are the weights of the points, the last three are the affine part.
    """
    points = _control_points(num)
    distance = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    affine = np.concatenate([np.ones((len(points), 1)), points], axis=1)
    kernel = distance**2 * np.log(distance + 1e-6)
    system = np.block([[kernel, affine], [affine.T, np.zeros((3, 3))]])
    solver: NDArray[np.float64] = np.linalg.inv(system)[:, : len(points)]
    return solver
