"""Operations that resample along a matrix or a field of displacements, in OpenCV.

Albumentations' own classes end in the same three functions of OpenCV; nearest pixels are chosen as
for masks, in float64.
"""

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpu_aug.draws import Params
from gpu_aug.engines.albumentations.step import Image, Step, prepare
from gpu_aug.errors import EngineError
from gpu_aug.ops.geometric.spatial import Remap, Spatial, Warp
from gpu_aug.resampling.grid import channel_fill, displaced, inverses, sources, take_nearest

_CPU = torch.device("cpu")
_INTERPOLATIONS = {"bilinear": cv2.INTER_LINEAR, "bicubic": cv2.INTER_CUBIC}
_BORDERS = {
    "constant": cv2.BORDER_CONSTANT,
    "edge": cv2.BORDER_REPLICATE,
    "reflect": cv2.BORDER_REFLECT_101,
    "symmetric": cv2.BORDER_REFLECT,
}

_LARGE = 512  # pixels a side, up to which OpenCV's warpPerspective is exact enough, and several times as fast
_FAR = 2.0**24  # beyond it OpenCV's whole numbers might end

Sampler = Callable[[Image, tuple[float, ...]], Image]
"""Image and the constant beside it in, resampled image out."""


@prepare.register
def _warp(operation: Warp) -> Step:
    _check_version(operation)

    def warp(image: Image, params: Params, row: int) -> Image:
        one = {name: values[row : row + 1] for name, values in params.items()}
        height, width = one["shape"][0].tolist() if "shape" in one else image.shape[:2]
        if operation.interpolation == "nearest":
            forward = operation.forward(one, np.array([image.shape[:2]]))
            return _nearest(operation, image, *sources(forward, (height, width), _CPU))
        matrix = one["matrix"][0]
        affine = (matrix[2] == (0, 0, 1)).all()
        is_large = max(height, width, *image.shape[:2]) > _LARGE
        pixels = _source_pixels(matrix, height, width) if is_large and not affine else None

        def sample(image: Image, fill: tuple[float, ...]) -> Image:
            flags = _INTERPOLATIONS[operation.interpolation]
            border: Any = {"borderMode": _BORDERS[operation.padding_mode], "borderValue": fill}
            warped: Image
            if pixels is not None:
                warped = cv2.remap(image, *pixels, flags, **border)
            elif affine:
                warped = cv2.warpAffine(image, matrix[:2], (width, height), flags=flags, **border)
            else:
                warped = cv2.warpPerspective(image, matrix, (width, height), flags=flags, **border)
            return warped

        return _sample(operation, image, sample)

    return warp


@prepare.register
def _remap(operation: Remap) -> Step:
    _check_version(operation)

    def remap(image: Image, params: Params, row: int) -> Image:
        one = {name: values[row : row + 1] for name, values in params.items()}
        height, width = image.shape[:2]
        moved = operation.displacement(one, (height, width), _CPU)
        if operation.interpolation == "nearest":
            return _nearest(operation, image, *displaced(moved))
        field = moved[0].numpy()
        columns = field[0] + np.arange(width, dtype=np.float32)
        rows = field[1] + np.arange(height, dtype=np.float32)[:, None]

        def sample(image: Image, fill: tuple[float, ...]) -> Image:
            moved_image: Image = cv2.remap(
                image,
                columns,
                rows,
                interpolation=_INTERPOLATIONS[operation.interpolation],
                borderMode=_BORDERS[operation.padding_mode],
                borderValue=fill,
            )
            return moved_image

        return _sample(operation, image, sample)

    return remap


def _source_pixels(matrix: NDArray[np.float64], height: int, width: int) -> tuple[Image, Image]:
    """Return where pixels lie in the image before, x and y, float32 [height, width], as indices of pixels.

    OpenCV's warpPerspective finds them in float32: pictures of 1280 x 1280 pixels then differ from those of other engines
    by 0.09 / 255, and so by 0.04. As there, a place at the horizon is (0, 0), and so are all of a matrix that has no inverse.
    """
    back = np.nan_to_num(inverses(matrix[None])[0])
    columns, rows = np.arange(width), np.arange(height)[:, None]
    x, y, scale = (row[0] * columns + (row[1] * rows + row[2]) for row in back)
    share = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale != 0)
    x, y = (np.clip(along * share, -_FAR, _FAR).astype(np.float32) for along in (x, y))
    return x, y


def _check_version(operation: Spatial) -> None:
    if operation.interpolation != "nearest" and int(cv2.__version__.split(".")[0]) < 5:
        raise EngineError(
            f"engine 'albumentations' cannot carry out {type(operation).__name__} exactly with OpenCV "
            f"{cv2.__version__}, which warps on a grid of 1/32 pixel: install OpenCV 5 or newer, "
            "or use engine 'kornia'"
        )


def _nearest(operation: Spatial, image: Image, x: Tensor, y: Tensor) -> Image:
    planes = torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1)[None]
    fill = channel_fill(operation.fill, planes.dtype)
    taken = take_nearest(planes, x, y, operation.padding_mode, fill)
    return np.ascontiguousarray(taken[0].permute(1, 2, 0).numpy())


def _sample(operation: Spatial, image: Image, sample: Sampler) -> Image:
    fill = channel_fill(operation.fill, torch.float32)
    if operation.padding_mode != "constant" or operation.blend == "once":
        return sample(image, fill)
    covered = sample(np.ones_like(image), (0.0,) * 3)
    values = np.array(fill, np.float32)
    blended: Image = (sample(image, (0.0,) * 3) - values) * covered + values
    return blended
