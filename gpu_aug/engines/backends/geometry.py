"""Crops, flips and resizes."""

import cv2
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from gpu_aug.draws import Params
from gpu_aug.engines.backends.step import (
    Image,
    NumpyStep,
    TorchStep,
    albumentations_transform,
    inject,
    numpy_step,
    on_rows,
    prepare_numpy,
    prepare_torch,
    torch_step,
)
from gpu_aug.engines.sources import Taps, area_taps, nearest_pixels, padded_pixels
from gpu_aug.ops.geometric.spatial import Crop, Reorient, Resample, Spatial
from gpu_aug.upload import upload

# OpenCV's names of our borders.
BORDERS = {
    "constant": cv2.BORDER_CONSTANT,
    "edge": cv2.BORDER_REPLICATE,
    "reflect": cv2.BORDER_REFLECT_101,
    "symmetric": cv2.BORDER_REFLECT,
}


# OpenCV's names of our interpolations; nearest pixels are chosen by `nearest_pixels`.
_INTERPOLATIONS = {
    "bilinear": cv2.INTER_LINEAR,
    "bicubic": cv2.INTER_CUBIC,
    "area": cv2.INTER_AREA,
}


@prepare_torch.register
def _reorient_torch(_: Reorient, _device: torch.device) -> TorchStep:
    steps: dict[str, TorchStep] = {
        "transpose": lambda x, _: x.transpose(2, 3),
        "top_bottom": lambda x, _: x.flip(2),
        "left_right": lambda x, _: x.flip(3),
    }

    def reorient(x: Tensor, params: Params) -> Tensor:
        for name, step in steps.items():
            x = on_rows(step, x, {"apply": params[name]})
        return x

    return reorient


@prepare_numpy.register
def _reorient_numpy(_: Reorient) -> NumpyStep:
    steps = {
        "transpose": albumentations_transform("Transpose"),
        "top_bottom": albumentations_transform("VerticalFlip"),
        "left_right": albumentations_transform("HorizontalFlip"),
    }

    def reorient(image: Image, params: Params, row: int) -> Image:
        for name, call in steps.items():
            if params[name][row]:
                image = inject(call, image)
        return image

    return reorient


@prepare_torch.register
def _crop_torch(operation: Crop, _device: torch.device) -> TorchStep:
    return lambda x, params: cut_torch(operation, x, params["start"], params["shape"])


@numpy_step
def _crop_numpy(operation: Crop, image: Image, params: Params, row: int) -> Image:
    return cut_numpy(operation, image, params["start"][row], params["shape"][row])


@torch_step
def _resample_torch(operation: Resample, x: Tensor, params: Params) -> Tensor:
    geometry = np.concatenate([params[name] for name in ("start", "shape", "resize")], axis=1)
    area = params.get("area", np.zeros(len(geometry), bool))
    # One call for all where all are alike; on a CPU the vector instructions would differ.
    alike = x.device.type != "cpu" and (geometry == geometry[0]).all() and (area == area[0]).all()
    groups = [slice(None)] if alike else [slice(row, row + 1) for row in range(len(x))]
    resized = []
    for rows in groups:
        part = cut_torch(operation, x[rows], params["start"][rows], params["shape"][rows])
        way = "area" if area[rows][0] else operation.interpolation
        size = params["resize"][rows][0].tolist()
        resized.append(resize_torch(part, size, way, antialias=operation.antialias))
    return torch.cat(resized)


@numpy_step
def _resample_numpy(operation: Resample, image: Image, params: Params, row: int) -> Image:
    part = cut_numpy(operation, image, params["start"][row], params["shape"][row])
    area = "area" in params and params["area"][row]
    way = "area" if area else operation.interpolation
    return resize_numpy(part, params["resize"][row].tolist(), way, antialias=operation.antialias)


def cut_torch(operation: Spatial, x: Tensor, start: np.ndarray, shape: np.ndarray) -> Tensor:
    """Crop a rectangle from each image, and pad it if it extends beyond the image.

    Args:
        operation: The operation, whose ``padding_mode`` and ``fill`` are used.
        x: Images [n, 3, H, W].
        start: Top and left of each rectangle, int64 [n, 2].
        shape: Height and width of each rectangle, int64 [n, 2], equal for all images.
    """
    height, width = shape[0].tolist()
    inside = bool(((start >= 0) & (start + shape <= x.shape[2:])).all())
    if inside and (start == start[0]).all():
        top, left = start[0].tolist()
        return x[:, :, top : top + height, left : left + width].contiguous()
    if inside and x.device.type == "cpu":
        corners = start.tolist()
        return torch.stack(
            [
                x[row, :, top : top + height, left : left + width]
                for row, (top, left) in enumerate(corners)
            ]
        )
    mode = operation.padding_mode
    rows = np.stack([padded_pixels(top, height, x.shape[2], mode) for top in start[:, 0]])
    columns = np.stack([padded_pixels(left, width, x.shape[3], mode) for left in start[:, 1]])
    y = gather(x, np.maximum(rows, 0), np.maximum(columns, 0))
    if mode != "constant":
        return y
    seen = (
        upload(rows >= 0, x.device)[:, None, :, None]
        & upload(columns >= 0, x.device)[:, None, None]
    )
    return torch.where(seen, y, fill_color_torch(operation.fill, x))


def cut_numpy(operation: Spatial, image: Image, start: np.ndarray, shape: np.ndarray) -> Image:
    """Crop a rectangle from an image [H, W, 3], and pad it if it extends beyond the image."""
    (top, left), (bottom, right) = start.tolist(), (start + shape).tolist()
    above, before = max(-top, 0), max(-left, 0)
    below, beside = max(bottom - image.shape[0], 0), max(right - image.shape[1], 0)
    if above or before or below or beside:
        image = cv2.copyMakeBorder(
            image,
            above,
            below,
            before,
            beside,
            BORDERS[operation.padding_mode],
            value=fill_color_numpy(operation.fill, image),
        )
    return image[top + above : bottom + above, left + before : right + before]


def resize_torch(x: Tensor, size: list[int], interpolation: str, *, antialias: bool) -> Tensor:
    """Resample images [n, 3, H, W] to ``size``."""
    if list(x.shape[2:]) == size:
        return x
    if interpolation in ("nearest", "nearest_floor"):
        floor = interpolation == "nearest_floor"
        rows, columns = (
            nearest_pixels(old, new, floor=floor)
            for old, new in zip(x.shape[2:], size, strict=True)
        )
        y = x.index_select(2, upload(rows, x.device))
        return y.index_select(3, upload(columns, x.device))
    if interpolation == "area":
        rows_taps, columns_taps = area_taps(x.shape[2:], size)
        return weigh(weigh(x, columns_taps, 3), rows_taps, 2)
    # Torch's antialiasing is torchvision's; Kornia's is a Gaussian of its own.
    return F.interpolate(x, size, mode=interpolation, antialias=antialias)


def resize_numpy(image: Image, size: list[int], interpolation: str, *, antialias: bool) -> Image:
    """Resample an image [H, W, 3] to ``size``."""
    if list(image.shape[:2]) == size:
        return image
    if interpolation in ("nearest", "nearest_floor"):
        floor = interpolation == "nearest_floor"
        rows, columns = (
            nearest_pixels(old, new, floor=floor)
            for old, new in zip(image.shape[:2], size, strict=True)
        )
        return image[rows][:, columns]
    if antialias and interpolation != "area":  # OpenCV has none
        planar = torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1)))[None]
        resized = F.interpolate(planar, size, mode=interpolation, antialias=True)[0]
        return np.ascontiguousarray(resized.numpy().transpose(1, 2, 0))
    whole = np.ascontiguousarray(image)
    scaled: Image = cv2.resize(whole, size[::-1], interpolation=_INTERPOLATIONS[interpolation])
    return scaled


def weigh(x: Tensor, taps: Taps, axis: int) -> Tensor:
    """Return images resampled along one axis; each new pixel is the weighted sum of its taps."""
    shape = [1] * 4
    shape[axis] = -1
    pixels, weights = upload(taps.pixels.T, x.device), upload(taps.weights.T, x.device)
    y = x.index_select(axis, pixels[0]) * weights[0].view(shape)
    for pixel, weight in zip(pixels[1:], weights[1:], strict=True):
        y += x.index_select(axis, pixel) * weight.view(shape)
    return y


def gather(x: Tensor, rows: np.ndarray, columns: np.ndarray) -> Tensor:
    """Return the pixels at rows, int64 [n, h], and columns, int64 [n, w], of images [n, 3, H, W]: [n, 3, h, w]."""
    image = torch.arange(len(x), device=x.device)[:, None, None, None]
    channel = torch.arange(x.shape[1], device=x.device)[None, :, None, None]
    down = upload(rows, x.device)[:, None, :, None]
    along = upload(columns, x.device)[:, None, None]
    return x[image, channel, down, along]


def fill_color_torch(fill: float | tuple[float, float, float], x: Tensor) -> Tensor:
    """Return a fill color of one or three values in [0, 1] as a tensor [1, c, 1, 1] of the dtype of ``x``.

    If that is uint8, values are scaled to 255 and rounded.
    """
    values = np.atleast_1d(np.array(fill, np.float64))
    if x.dtype == torch.uint8:
        values = np.clip(np.rint(values * 255), 0, 255).astype(np.uint8)
    else:
        values = values.astype(np.float32)
    return upload(values, x.device).view(1, -1, 1, 1)


def fill_color_numpy(fill: float | tuple[float, float, float], image: Image) -> list[float]:
    """Return a fill color of one or three values in [0, 1] as the four numbers that OpenCV takes; the last is 0.

    If ``image`` is uint8, values are scaled to 255 and rounded.
    """
    values = np.array(np.broadcast_to(np.array(fill, np.float64), 3))
    if image.dtype == np.uint8:
        values = np.clip(np.rint(values * 255), 0, 255)
    return [*values.tolist(), 0.0]
