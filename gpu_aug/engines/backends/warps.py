"""Operations that resample along a matrix or a displacement field.

Kornia's warps lack one of the two mirrored borders and a fill for nearest-neighbour sampling, so the sampling grid is computed
here, from matrices that are inverted on the host in float64. On single images the three OpenCV functions are called that
Albumentations' transforms call too; nearest pixels are chosen as for masks, in float64.
"""

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from gpu_aug.draw_operations import row_of
from gpu_aug.draws import Params
from gpu_aug.engines.backends.geometry import BORDERS
from gpu_aug.engines.backends.step import Image, NumpyStep, prepare_numpy, torch_step
from gpu_aug.errors import EngineError
from gpu_aug.ops.geometric.spatial import Matrices, Remap, Spatial, Warp
from gpu_aug.resampling.grid import channel_fill, displaced, inverses, sources, take_nearest
from gpu_aug.upload import upload

Size = tuple[int, int]

# torch's grid_sample has one mirroring; `_normalization` makes it the one or the other.
_PADDING = {
    "constant": "zeros",
    "edge": "border",
    "reflect": "reflection",
    "symmetric": "reflection",
}

_CPU = torch.device("cpu")  # of images that are NumPy arrays

_INTERPOLATIONS = {"bilinear": cv2.INTER_LINEAR, "bicubic": cv2.INTER_CUBIC}  # nearest is ours

_LARGE = 512  # pixels a side, up to which OpenCV's warpPerspective is exact enough, and several times as fast

_FAR = 2.0**24  # larger coordinates might not fit into OpenCV's integers


Sampler = Callable[[Image, tuple[float, ...]], Image]
"""Takes an image and the constant of its border, and returns the resampled image."""


@torch_step
def _warp_torch(operation: Warp, x: Tensor, params: Params) -> Tensor:
    size = (x.shape[2], x.shape[3])
    # All images have one size here, so all rows have the same shape afterwards.
    height, width = params["shape"][0].tolist() if "shape" in params else size
    if operation.interpolation == "nearest":
        sizes = np.broadcast_to(np.array(size), (len(x), 2))
        points = sources(operation.forward(params, sizes), (height, width), x.device)
        return take_nearest(
            x, *points, operation.padding_mode, channel_fill(operation.fill, x.dtype, x.shape[1])
        )
    scale, shift = _normalization(operation, size)
    normalized = np.eye(3)
    normalized[[0, 1], [0, 1]], normalized[:2, 2] = scale, shift
    back = normalized @ inverses(params["matrix"])
    return _sample_torch(operation, x, _grid(back, (height, width), x.device))


@prepare_numpy.register
def _warp_numpy(operation: Warp) -> NumpyStep:
    _check_version(operation)

    def warp(image: Image, params: Params, row: int) -> Image:
        one = row_of(params, row)
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
            border: Any = {"borderMode": BORDERS[operation.padding_mode], "borderValue": fill}
            warped: Image
            if pixels is not None:
                warped = cv2.remap(image, *pixels, flags, **border)
            elif affine:
                warped = cv2.warpAffine(image, matrix[:2], (width, height), flags=flags, **border)
            else:
                warped = cv2.warpPerspective(image, matrix, (width, height), flags=flags, **border)
            return warped

        return _sample_numpy(operation, image, sample)

    return warp


@torch_step
def _remap_torch(operation: Remap, x: Tensor, params: Params) -> Tensor:
    height, width = x.shape[2:]
    moved = operation.displacement(params, (height, width), x.device)
    if operation.interpolation == "nearest":
        points = displaced(moved)
        return take_nearest(
            x, *points, operation.padding_mode, channel_fill(operation.fill, x.dtype, x.shape[1])
        )
    scale, shift = _normalization(operation, (height, width))
    columns = torch.arange(width, dtype=torch.float32, device=x.device)
    rows = torch.arange(height, dtype=torch.float32, device=x.device)[:, None]
    grid = torch.stack(
        [
            (moved[:, 0] + columns) * scale[0] + shift[0],
            (moved[:, 1] + rows) * scale[1] + shift[1],
        ],
        dim=-1,
    )
    return _sample_torch(operation, x, grid)


@prepare_numpy.register
def _remap_numpy(operation: Remap) -> NumpyStep:
    _check_version(operation)

    def remap(image: Image, params: Params, row: int) -> Image:
        one = row_of(params, row)
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
                borderMode=BORDERS[operation.padding_mode],
                borderValue=fill,
            )
            return moved_image

        return _sample_numpy(operation, image, sample)

    return remap


def _normalization(operation: Spatial, size: Size) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the factors and offsets, (x, y) each, that turn pixel indices into grid_sample's coordinates."""
    lengths = (size[1], size[0])
    if operation.padding_mode == "reflect":  # about the centres of the outer pixels
        return tuple(2 / max(n - 1, 1) for n in lengths), (-1.0, -1.0)
    return tuple(2 / n for n in lengths), tuple(1 / n - 1 for n in lengths)


def _grid(back: Matrices, size: Size, device: torch.device) -> Tensor:
    """Return the images of all pixel indices under the matrices ``back``, float32 [B, *size, 2]."""
    height, width = size
    rows = upload(back, device)[:, None, None]  # [B, 1, 1, 3, 3]
    x = torch.arange(width, dtype=torch.float64, device=device).view(1, 1, -1, 1)
    y = torch.arange(height, dtype=torch.float64, device=device).view(1, -1, 1, 1)
    if (back[:, 2] == (0, 0, 1)).all():
        # Two short tables in float64 and one sum in float32, as exact as grid_sample itself.
        along_x, along_y = x * rows[..., :2, 0], y * rows[..., :2, 1] + rows[..., :2, 2]
        return along_x.float() + along_y.float()
    points = x * rows[..., 0] + (y * rows[..., 1] + rows[..., 2])
    return (points[..., :2] / points[..., 2:]).float()


def _sample_torch(operation: Spatial, x: Tensor, grid: Tensor) -> Tensor:
    def sample(images: Tensor) -> Tensor:
        return F.grid_sample(
            images,
            grid,
            mode=operation.interpolation,
            padding_mode=_PADDING[operation.padding_mode],
            align_corners=operation.padding_mode == "reflect",
        )

    if operation.padding_mode != "constant":
        return sample(x)
    fill = _upload_fill(operation, x)
    if operation.blend == "once":
        return sample(x) if fill is None else sample(x - fill).add_(fill)
    sampled = sample(torch.cat([x, torch.ones_like(x[:, :1])], dim=1))
    images, covered = sampled[:, :-1], sampled[:, -1:]
    return images * covered if fill is None else (images - fill) * covered + fill


def _sample_numpy(operation: Spatial, image: Image, sample: Sampler) -> Image:
    fill = channel_fill(operation.fill, torch.float32)
    if operation.padding_mode != "constant" or operation.blend == "once":
        return sample(image, fill)
    covered = sample(np.ones_like(image), (0.0,) * 3)
    values = np.array(fill, np.float32)
    blended: Image = (sample(image, (0.0,) * 3) - values) * covered + values
    return blended


def _upload_fill(operation: Spatial, x: Tensor) -> Tensor | None:
    if not np.any(operation.fill):
        return None
    values = np.array(channel_fill(operation.fill, x.dtype, x.shape[1]), np.float32)
    return upload(values, x.device).view(1, -1, 1, 1)


def _source_pixels(matrix: NDArray[np.float64], height: int, width: int) -> tuple[Image, Image]:
    """Return the input position of each output pixel: x and y in pixel indices, float32 [height, width].

    OpenCV's warpPerspective computes these positions in float32: for images of 1280 x 1280 pixels its results differ from those of
    other engines by 0.09 / 255, with these positions by 0.04 / 255. As in OpenCV, a pixel on the horizon gets the position (0, 0),
    and so do all pixels if the matrix has no inverse.
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
