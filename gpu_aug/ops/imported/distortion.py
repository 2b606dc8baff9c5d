"""Distortions by a grid and by a lens."""

import math
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpu_aug.draws import Params
from gpu_aug.errors import RecipeError
from gpu_aug.ops import validation
from gpu_aug.ops.distributions.columns import Drawn, Random, Uniform
from gpu_aug.ops.distributions.uniform import Range, Sizes
from gpu_aug.ops.geometric.spatial import Remap
from gpu_aug.ops.geometric.warps import WarpWithBorder, pixel_indices
from gpu_aug.upload import upload

__all__ = ["GridDistortion", "OpticalDistortion"]


@dataclass(frozen=True)
class GridDistortion(WarpWithBorder, Remap):
    """Stretch and squeeze the columns and the rows of a grid.

    Args:
        num_steps: Number of columns and of rows of the grid.
        distort_limit: Range of the relative change of each width and height, from -1 to 1; one number ``x`` means (-x, x).
        normalized: Whether the columns and rows are scaled such that none leaves the image.
        interpolation: See WarpWithBorder.
        padding_mode: See WarpWithBorder.
        fill: See WarpWithBorder.
        fill_mask: See WarpWithBorder.
        blend: See WarpWithBorder.
        p: Share of the images that are changed.

    Source: Albumentations 2.0.8 GridDistortion. If ``num_steps`` does not divide a side, a remainder longer than one
    step shows the first pixel, as in Albumentations.
    """

    # Measured 0.003.
    tolerance: ClassVar[float] = 0.05

    random: ClassVar[Random] = {
        "steps": Uniform("distort_limit", lambda self: 2 * (self.num_steps + 1))
    }

    num_steps: Annotated[int, validation.Integer(low=1, example="5")] = 5
    distort_limit: Annotated[
        float | Range,
        validation.Interval(low=-1, high=1, around=0, example="(-0.3, 0.3)"),
    ] = (-0.3, 0.3)
    _: KW_ONLY
    normalized: bool = True
    p: float = 0.5

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``steps``, float64 [B, 2, num_steps + 1]: the scale factors of the columns and of the rows."""
        steps = 1 + drawn["steps"]
        steps = steps.reshape(len(sizes), 2, -1)
        extent = sizes[:, ::-1]
        if self.normalized:
            length = np.maximum(extent // self.num_steps, 1)
            rest = np.minimum(extent, (self.num_steps + 1) * length) - self.num_steps * length
            steps[:, :, -1] *= rest / length
            steps *= (extent / length / steps.sum(axis=2))[:, :, None]
        return {"steps": steps}

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Return ``sizes``.

        Raises:
            RecipeError: A side has fewer pixels than the grid has steps.
        """
        if sizes.min() < self.num_steps:
            height, width = sizes[sizes.min(axis=1).argmin()].tolist()
            raise RecipeError(
                f"GridDistortion num_steps={self.num_steps} needs as many pixels on each side, and "
                f"the image is {height}x{width} here: take fewer steps or resize the image before"
            )
        return sizes

    def displacement(self, params: Params, size: tuple[int, int], device: torch.device) -> Tensor:
        """Return the displacement field, float32 [B, 2, H, W]; see Remap."""
        height, width = size
        across = np.stack([self._line(steps, width) for steps in params["steps"][:, 0]])
        down = np.stack([self._line(steps, height) for steps in params["steps"][:, 1]])
        planes = [upload(across[:, None], device), upload(down[:, :, None], device)]
        return torch.stack([plane.expand(-1, height, width) for plane in planes], dim=1)

    def _line(self, steps: NDArray[np.float64], length: int) -> NDArray[np.float32]:
        """Return the displacements of the pixels along an axis of ``length`` pixels, float32 [length]."""
        sources = np.zeros(length, np.float32)
        at, step = 0.0, length // self.num_steps
        for index, scale in enumerate(steps):
            start, stop = index * step, min((index + 1) * step, length)
            following = at + step * scale
            sources[start:stop] = np.linspace(at, following, max(stop - start, 0))
            at = following
        sources -= np.arange(length, dtype=np.float32)
        return sources


@dataclass(frozen=True)
class OpticalDistortion(WarpWithBorder, Remap):
    """Distort the image as a lens does, outwards or inwards from the centre.

    Args:
        distort_limit: Range of the distortion coefficient; one number ``x`` means (-x, x).
        mode: Lens model: "camera", which is OpenCV's model with k1 = k2, or "fisheye".
        interpolation: See WarpWithBorder.
        padding_mode: See WarpWithBorder.
        fill: See WarpWithBorder.
        fill_mask: See WarpWithBorder.
        blend: See WarpWithBorder.
        p: Share of the images that are changed.

    Source: Albumentations 2.0.8 OpticalDistortion. "camera" moves the image by half a pixel, as in Albumentations.
    """

    tolerance: ClassVar[float] = GridDistortion.tolerance

    random: ClassVar[Random] = {"coefficient": Uniform("distort_limit")}

    distort_limit: Annotated[
        float | Range,
        validation.Interval(low=-math.inf, around=0, example="(-0.05, 0.05)"),
    ] = (-0.05, 0.05)
    mode: Literal["camera", "fisheye"] = "camera"
    _: KW_ONLY
    p: float = 0.5

    def displacement(self, params: Params, size: tuple[int, int], device: torch.device) -> Tensor:
        """Return the displacement field, float32 [B, 2, H, W]; see Remap."""
        height, width = size
        coefficient = upload(params["coefficient"], device)[:, None, None]
        x, y = pixel_indices(size, device)
        if self.mode == "fisheye":
            x, y = x - width / 2, y - height / 2
            furthest = math.hypot(width / 2, height / 2)
            grown = coefficient * (x * x + y * y) / furthest**2
            return torch.stack([x * grown, y * grown], dim=1).float()
        x, y = (x - (width - 1) / 2) / width, (y - (height - 1) / 2) / height
        radius = x * x + y * y
        grown = coefficient.float().double() * radius * (1 + radius)
        return torch.stack([x * grown * width + 0.5, y * grown * height + 0.5], dim=1).float()
