"""Projective warps: the image seen from another viewpoint."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, ClassVar

import numpy as np

from gpu_aug.draws import Params
from gpu_aug.ops import validation
from gpu_aug.ops.distributions.columns import Drawn, Numbers, Random, Uniform
from gpu_aug.ops.distributions.uniform import Range, Sizes, whole_below
from gpu_aug.ops.geometric.spatial import Warp
from gpu_aug.ops.geometric.warps import WarpWithBorder, extremes, homographies, normals
from gpu_aug.resampling.grid import to_index

__all__ = ["Perspective", "RandomPerspective"]

_MOST = 0.32  # Albumentations' largest jitter, a share of a side
_CORNERS = np.array([[0, 0], [1, 0], [1, 1], [0, 1]])  # (x, y), clockwise from the top left


@dataclass(frozen=True)
class RandomPerspective(WarpWithBorder, Warp):
    """Warp the image such that its corners move inwards, each by a whole number of pixels.

    Args:
        distortion_scale: Largest move of a corner, as a share of half the width and half the height.
        interpolation: See WarpWithBorder.
        padding_mode: See WarpWithBorder.
        fill: See WarpWithBorder.
        fill_mask: See WarpWithBorder.
        blend: See WarpWithBorder.
        p: Share of the images that are changed.

    Source: torchvision v2 RandomPerspective, which uses pixel indices of corners as points.
    """

    # Measured on photographs 0.01 at 224 x 224, 0.03 at 512 x 512, 0.044 at 1280 x 1280; float32 in OpenCV and grid_sample.
    tolerance: ClassVar[float] = 0.05

    random: ClassVar[Random] = {"corners": Numbers(8)}

    distortion_scale: Annotated[float, validation.Number(low=0, high=1, example="0.5")] = 0.5
    _: KW_ONLY
    p: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.padding_mode in ("reflect", "symmetric") and self.distortion_scale > 0.5:
            raise validation.fault(
                "RandomPerspective",
                "padding_mode",
                self.padding_mode,
                "'constant' or 'edge' with distortion_scale above 0.5, where the horizon can be seen and mirrors have no "
                "end, for example 'edge'",
            )

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``matrix``, float64 [B, 3, 3]; see Warp."""
        extent = sizes[:, None, ::-1]
        bound = (self.distortion_scale * (extent // 2)).astype(np.int64) + 1
        moved = whole_below(drawn["corners"].reshape(-1, 4, 2), bound)
        before = (extent - 1) * _CORNERS
        after = np.where(_CORNERS == 1, extent - bound + moved, moved)
        matrix = homographies(before.astype(np.float64), after.astype(np.float64))
        return {"matrix": to_index(matrix)}


@dataclass(frozen=True)
class Perspective(WarpWithBorder, Warp):
    """Move the corners at random, and warp the quadrilateral between them to the full image.

    Args:
        scale: Range of the standard deviation of the corners' jitter, as a share of the sides; one number ``x`` means (0, x).
            The jitter is taken modulo 0.32.
        keep_size: Whether the result gets the size of the image.
        fit_output: Whether the result shows the full warped image.
        interpolation: See WarpWithBorder.
        padding_mode: See WarpWithBorder.
        fill: See WarpWithBorder.
        fill_mask: See WarpWithBorder.
        blend: See WarpWithBorder.
        p: Share of the images that are changed.

    Source: Albumentations 2.0.8 Perspective, which uses points of corners as pixel indices.
    """

    tolerance: ClassVar[float] = RandomPerspective.tolerance

    random: ClassVar[Random] = {"deviation": Uniform("scale"), "jitter": Numbers(8)}

    scale: Annotated[float | Range, validation.Interval(low=0, example="(0.05, 0.1)", around=0)] = (
        0.05,
        0.1,
    )
    _: KW_ONLY
    keep_size: bool = True
    fit_output: bool = False
    p: float = 0.5

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``matrix``, float64 [B, 3, 3], and without ``keep_size`` also ``shape``; see Warp."""
        extent = sizes[:, None, ::-1].astype(np.float64)
        jitter = (
            np.abs(normals(drawn["jitter"]) * drawn["deviation"][:, None]).reshape(-1, 4, 2) % _MOST
        )
        points = np.where(_CORNERS == 1, 1 - jitter, jitter) * extent
        points = points.astype(np.float32).astype(np.float64)
        matrix = homographies(points, extent * _CORNERS)
        if self.fit_output:
            corners = np.concatenate([extent * _CORNERS, np.ones((len(sizes), 4, 1))], axis=2)
            moved = corners @ matrix.transpose(0, 2, 1)
            moved = moved[:, :, :2] / moved[:, :, 2:]
            moved = np.rint((moved - moved.min(axis=1, keepdims=True)).astype(np.float32))
            moved = moved.astype(np.float64)
            matrix, seen = homographies(extent * _CORNERS, moved), moved.max(axis=1)
        else:
            sides = np.linalg.norm(points - np.roll(points, -1, axis=1), axis=2)
            seen = np.stack([sides[:, ::2].max(axis=1), sides[:, 1::2].max(axis=1)], axis=1)
        seen = np.maximum(np.trunc(seen), 1)
        if not self.keep_size:
            shape = seen[:, ::-1].astype(np.int64)
            return {"matrix": matrix, "shape": shape}
        matrix[:, :2] *= (extent[:, 0] / seen)[:, :, None]
        return {"matrix": matrix}

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Return ``sizes``; without ``keep_size`` also the smallest and largest size of many draws."""
        if self.keep_size:
            return sizes
        u = np.random.default_rng(0).random((256, self.num_uniforms))
        drawn = [self.draw(u, np.repeat(size[None], 256, axis=0))["shape"] for size in sizes]
        return np.concatenate([sizes, *map(extremes, drawn)])
