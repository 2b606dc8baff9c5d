"""Distortions by a few drawn numbers: of a grid, of a lens, and of moved points."""

import math
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from typing import ClassVar, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpu_aug.draws import Params
from gpu_aug.errors import RecipeError
from gpu_aug.ops import fields
from gpu_aug.ops.geometric.spatial import Remap
from gpu_aug.ops.geometric.warps import Bordered, Range, normals
from gpu_aug.ops.laws.uniform import Sizes, Uniforms, between, whole_between

__all__ = ["GridDistortion", "OpticalDistortion", "PiecewiseAffine", "ThinPlateSpline"]

_NOWHERE = 1e150
"""Where control points lie that a sample has not got: their weight is 0."""


@dataclass(frozen=True)
class GridDistortion(Bordered, Remap):
    """Stretch and squeeze the columns and the rows of a grid.

    Args:
        num_steps: Number of columns and of rows.
        distort_limit: Range of the change of each one's share, from -1 to 1; one number ``x`` is
            (-x, x).
        normalized: Whether the columns and rows are scaled so that none of them leaves the image.
        interpolation: See Bordered.
        padding_mode: See Bordered.
        fill: See Bordered.
        fill_mask: See Bordered.
        blend: See Bordered.
        p: Share of the images that are changed.

    Source: Albumentations 2.0.8 GridDistortion. Of a side that ``num_steps`` does not divide, a rest of
    more than one step's length shows the first pixel, as it does there.
    """

    # Measured 0.003.
    tolerance: ClassVar[float] = 0.05

    num_steps: int = 5
    distort_limit: float | tuple[float, float] = (-0.3, 0.3)
    _: KW_ONLY
    normalized: bool = True
    p: float = 0.5

    def __post_init__(self) -> None:
        name = "GridDistortion"
        self._set_border()
        self._set(
            num_steps=fields.whole(name, "num_steps", self.num_steps, low=1, example="5"),
            distort_limit=fields.interval(
                name,
                "distort_limit",
                self.distort_limit,
                low=-1,
                high=1,
                around=0,
                example="(-0.3, 0.3)",
            ),
            normalized=bool(self.normalized),
        )

    @property
    def num_uniforms(self) -> int:
        """The gate and one for each line of the grid but the first."""
        return 1 + 2 * (self.num_steps + 1)

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:
        """Draw ``steps``, float64 [B, 2, num_steps + 1], the scales of columns and of rows."""
        steps = 1 + between(u[:, 1:], cast("Range", self.distort_limit))
        steps = steps.reshape(len(u), 2, -1)
        extent = sizes[:, ::-1]
        if self.normalized:
            length = np.maximum(extent // self.num_steps, 1)
            rest = np.minimum(extent, (self.num_steps + 1) * length) - self.num_steps * length
            steps[:, :, -1] *= rest / length
            steps *= (extent / length / steps.sum(axis=2))[:, :, None]
        return {"apply": self.gate(u), "steps": steps}

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Every side must have a pixel for each step."""
        if sizes.min() < self.num_steps:
            height, width = sizes[sizes.min(axis=1).argmin()].tolist()
            raise RecipeError(
                f"GridDistortion num_steps={self.num_steps} needs as many pixels on each side, and "
                f"the image is {height}x{width} here: take fewer steps or resize the image before"
            )
        return sizes

    def displacement(self, params: Params, size: tuple[int, int], device: torch.device) -> Tensor:
        """Return float32 [B, 2, H, W]; see Remap."""
        height, width = size
        across = np.stack([self._line(steps, width) for steps in params["steps"][:, 0]])
        down = np.stack([self._line(steps, height) for steps in params["steps"][:, 1]])
        planes = [_to(across[:, None], device), _to(down[:, :, None], device)]
        return torch.stack([plane.expand(-1, height, width) for plane in planes], dim=1)

    def _line(self, steps: NDArray[np.float64], length: int) -> NDArray[np.float32]:
        """Return by how much the pixels of a line of ``length`` are displaced."""
        places = np.zeros(length, np.float32)
        at, step = 0.0, length // self.num_steps
        for index, scale in enumerate(steps):
            start, stop = index * step, min((index + 1) * step, length)
            following = at + step * scale
            places[start:stop] = np.linspace(at, following, max(stop - start, 0))
            at = following
        places -= np.arange(length, dtype=np.float32)
        return places


@dataclass(frozen=True)
class OpticalDistortion(Bordered, Remap):
    """Distort as a lens does, outwards or inwards from the centre.

    Args:
        distort_limit: Range of the coefficient; one number ``x`` is (-x, x).
        mode: "camera", OpenCV's model with k1 = k2, or "fisheye".
        interpolation: See Bordered.
        padding_mode: See Bordered.
        fill: See Bordered.
        fill_mask: See Bordered.
        blend: See Bordered.
        p: Share of the images that are changed.

    Source: Albumentations 2.0.8 OpticalDistortion. "camera" moves the image by half a pixel, as it
    does there.
    """

    tolerance: ClassVar[float] = GridDistortion.tolerance

    num_uniforms: ClassVar[int] = 2
    """The gate and the coefficient."""

    distort_limit: float | tuple[float, float] = (-0.05, 0.05)
    mode: Literal["camera", "fisheye"] = "camera"
    _: KW_ONLY
    p: float = 0.5

    def __post_init__(self) -> None:
        name = "OpticalDistortion"
        self._set_border()
        limit = self.distort_limit
        self._set(
            distort_limit=fields.interval(
                name, "distort_limit", limit, low=-math.inf, around=0, example="(-0.05, 0.05)"
            ),
            mode=fields.choice(name, "mode", self.mode, ("camera", "fisheye")),
        )

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - any size
        """Draw ``coefficient``, float64 [B]."""
        coefficient = between(u[:, 1], cast("Range", self.distort_limit))
        return {"apply": self.gate(u), "coefficient": coefficient}

    def displacement(self, params: Params, size: tuple[int, int], device: torch.device) -> Tensor:
        """Return float32 [B, 2, H, W]; see Remap."""
        height, width = size
        coefficient = _to(params["coefficient"], device)[:, None, None]
        x, y = _indices(size, device)
        if self.mode == "fisheye":
            x, y = x - width / 2, y - height / 2
            furthest = math.hypot(width / 2, height / 2)
            grown = coefficient * (x * x + y * y) / furthest**2
            return torch.stack([x * grown, y * grown], dim=1).float()
        x, y = (x - (width - 1) / 2) / width, (y - (height - 1) / 2) / height
        radius = x * x + y * y
        grown = coefficient.float().double() * radius * (1 + radius)
        return torch.stack([x * grown * width + 0.5, y * grown * height + 0.5], dim=1).float()


@dataclass(frozen=True)
class PiecewiseAffine(Bordered, Remap):
    """Move the points of a grid at random, and every pixel to the mean of them all.

    The points are weighted by the inverse square of their distance, so that the image is drawn
    together towards its middle even where no point moves.

    Args:
        scale: Range of the points' jitter, three standard deviations, as a share of the shorter
            side; above 0. One number is that number.
        nb_rows: How many rows of points, a range of whole numbers from 2; one number is both ends.
        nb_cols: How many columns of points; the same.
        absolute_scale: Whether ``scale`` is in pixels.
        interpolation: See Bordered.
        padding_mode: See Bordered.
        fill: See Bordered.
        fill_mask: See Bordered.
        blend: See Bordered.
        p: Share of the images that are changed.

    Source: Albumentations 2.0.8 PiecewiseAffine, which is not what other libraries mean by the name.
    """

    tolerance: ClassVar[float] = GridDistortion.tolerance

    scale: float | tuple[float, float] = (0.03, 0.05)
    nb_rows: int | tuple[int, int] = (4, 4)
    nb_cols: int | tuple[int, int] = (4, 4)
    _: KW_ONLY
    absolute_scale: bool = False
    p: float = 0.5

    def __post_init__(self) -> None:
        name = "PiecewiseAffine"
        self._set_border()
        scale = (self.scale, self.scale) if fields.is_number(self.scale) else self.scale
        self._set(
            scale=fields.interval(name, "scale", scale, low=0, example="(0.03, 0.05)"),
            nb_rows=fields.whole_interval(name, "nb_rows", self.nb_rows, low=2, example="(4, 4)"),
            nb_cols=fields.whole_interval(name, "nb_cols", self.nb_cols, low=2, example="(4, 4)"),
            absolute_scale=bool(self.absolute_scale),
        )
        if cast("Range", self.scale)[1] == 0:
            raise fields.fault(name, "scale", self.scale, "above 0, for example (0.03, 0.05)")

    @property
    def _most(self) -> int:
        return cast("tuple[int, int]", self.nb_rows)[1] * cast("tuple[int, int]", self.nb_cols)[1]

    @property
    def num_uniforms(self) -> int:
        """The gate, rows, columns, the scale, and two for each point."""
        return 4 + 2 * self._most

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:
        """Draw ``points`` and ``moved``, float64 [B, n, 2], (x, y) as indices of pixels."""
        num_rows = whole_between(u[:, 1], cast("tuple[int, int]", self.nb_rows))[:, None]
        num_columns = whole_between(u[:, 2], cast("tuple[int, int]", self.nb_cols))[:, None]
        deviation = between(u[:, 3], cast("Range", self.scale)) / 3
        if not self.absolute_scale:
            deviation = deviation * sizes.min(axis=1)
        furthest = (sizes[:, ::-1] - 1).astype(np.float64)
        place = np.arange(self._most)[None]
        column, row = place % num_columns, place // num_columns
        points = np.stack(
            [
                furthest[:, :1] * column / (num_columns - 1),
                furthest[:, 1:] * row / (num_rows - 1),
            ],
            axis=2,
        )
        jitter = normals(u[:, 4:]).reshape(len(u), -1, 2) * deviation[:, None, None]
        moved = np.clip(points + jitter, 0, furthest[:, None])
        points[place >= num_rows * num_columns] = _NOWHERE
        return {"apply": self.gate(u), "points": points, "moved": moved}

    def displacement(self, params: Params, size: tuple[int, int], device: torch.device) -> Tensor:
        """Return float32 [B, 2, H, W]; see Remap."""
        x, y = _indices(size, device)
        points, moved = (_to(params[name], device) for name in ("points", "moved"))
        total = sum_x = sum_y = torch.zeros((), dtype=torch.float64, device=device)
        for place in range(points.shape[1]):
            from_x, from_y, to_x, to_y = (
                plane[:, place, axis, None, None] for plane in (points, moved) for axis in (0, 1)
            )
            weight = 1 / ((x - from_x) ** 2 + (y - from_y) ** 2 + 1e-8)
            total = total + weight
            sum_x, sum_y = sum_x + weight * to_x, sum_y + weight * to_y
        return torch.stack([sum_x / total - x, sum_y / total - y], dim=1).float()


@dataclass(frozen=True)
class ThinPlateSpline(Bordered, Remap):
    """Move the points of a grid at random, and bend the image with them.

    Args:
        scale_range: Range of the points' jitter, ten standard deviations, as a share of the sides;
            from 0 to 1.
        num_control_points: How many rows and columns of points, at least 2; 2 are the four corners
            and the centre.
        interpolation: See Bordered.
        padding_mode: See Bordered.
        fill: See Bordered.
        fill_mask: See Bordered.
        blend: See Bordered.
        p: Share of the images that are changed.

    Source: Albumentations 2.0.8 ThinPlateSpline. It solves for the weights of d**4 log d**2 and
    uses them with d**2 log d**2, so the points do not go quite where they were drawn.
    """

    tolerance: ClassVar[float] = GridDistortion.tolerance

    scale_range: tuple[float, float] = (0.2, 0.4)
    num_control_points: int = 4
    _: KW_ONLY
    p: float = 0.5

    def __post_init__(self) -> None:
        name = "ThinPlateSpline"
        self._set_border()
        self._set(
            scale_range=fields.interval(
                name, "scale_range", self.scale_range, low=0, high=1, example="(0.2, 0.4)"
            ),
            num_control_points=fields.whole(
                name, "num_control_points", self.num_control_points, low=2, example="4"
            ),
        )

    @property
    def num_uniforms(self) -> int:
        """The gate, the scale, and two for each point."""
        return 2 + 2 * len(_control_points(self.num_control_points))

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - in shares of the sides
        """Draw ``moved``, float64 [B, n, 2], (x, y) of the points as shares of the sides."""
        deviation = between(u[:, 1], self.scale_range) / 10
        jitter = normals(u[:, 2:]).reshape(len(u), -1, 2) * deviation[:, None, None]
        return {"apply": self.gate(u), "moved": _control_points(self.num_control_points) + jitter}

    def displacement(self, params: Params, size: tuple[int, int], device: torch.device) -> Tensor:
        """Return float32 [B, 2, H, W]; see Remap."""
        height, width = size
        solution = _to(_spline_solver(self.num_control_points) @ params["moved"], device)
        weights = solution[:, :, :, None, None]  # [B, n + 3, 2, 1, 1]
        x, y = _indices(size, device)
        share_x, share_y = x / width, y / height
        points = _control_points(self.num_control_points)
        first = len(points)
        moved = (
            weights[:, first]
            + weights[:, first + 1] * share_x[:, None]
            + weights[:, first + 2] * share_y[:, None]
        )
        for place, (point_x, point_y) in enumerate(points.tolist()):
            distance = (share_x - point_x) ** 2 + (share_y - point_y) ** 2
            moved = moved + weights[:, place] * (distance * (distance + 1e-6).log())[:, None]
        return torch.stack([moved[:, 0] * width - x, moved[:, 1] * height - y], dim=1).float()


@lru_cache(maxsize=64)
def _control_points(num: int) -> NDArray[np.float64]:
    """Return the points, [n, 2] in (x, y), as shares of the sides."""
    if num == 2:
        return np.array([[0, 0], [0, 1], [1, 0], [1, 1], [0.5, 0.5]])
    line = np.linspace(0, 1, num)
    return np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)


@lru_cache(maxsize=64)
def _spline_solver(num: int) -> NDArray[np.float64]:
    """Return the matrix [n + 3, n] from where the points go to the weights, then the affine part."""
    points = _control_points(num)
    distance = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    affine = np.concatenate([np.ones((len(points), 1)), points], axis=1)
    kernel = distance**2 * np.log(distance + 1e-6)
    system = np.block([[kernel, affine], [affine.T, np.zeros((3, 3))]])
    solver: NDArray[np.float64] = np.linalg.inv(system)[:, : len(points)]
    return solver


def _indices(size: tuple[int, int], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return x and y of the pixels as indices, float64 [1, H, W] each."""
    y, x = torch.meshgrid(
        *(torch.arange(side, dtype=torch.float64, device=device) for side in size), indexing="ij"
    )
    return x[None], y[None]


def _to(values: NDArray[np.generic], device: torch.device) -> Tensor:
    """Copy a host array to ``device`` without waiting for what is queued there."""
    tensor = torch.from_numpy(np.ascontiguousarray(values))
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
