"""Operations that mix each pixel with its neighbours, in Kornia's engine.

Kornia has one kernel size per batch and other borders, so that these are torch.
"""

from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from gpu_aug.draws import Params
from gpu_aug.engines.hosted import hosted
from gpu_aug.engines.kornia.step import Step, carries_out, host_step, on_rows, prepare
from gpu_aug.engines.layout import to_unit_
from gpu_aug.ops import (
    JPEG,
    ChromaticAberration,
    Downscale,
    Filter,
    GlassBlur,
    MedianBlur,
    Spatter,
    Superpixels,
    UnsharpMask,
    WebP,
    ZoomBlur,
)
from gpu_aug.ops.blur.edges import THRESHOLD_MARGIN
from gpu_aug.ops.blur.kernels import Kernels
from gpu_aug.ops.blur.lens import zoom_window, zooms
from gpu_aug.upload import upload


@carries_out
def _filter(operation: Filter, x: Tensor, params: Params) -> Tensor:
    filtered = convolve(x, operation.kernel(params))
    return filtered.clamp_(0, 1) if operation.clamps else filtered


@carries_out
def _unsharp(operation: UnsharpMask, x: Tensor, params: Params) -> Tensor:
    threshold = (operation.threshold + THRESHOLD_MARGIN) / 255
    kernel = operation.kernel(params)
    residual = x - convolve(x, kernel)
    mask = convolve((residual.abs() > threshold).float(), kernel)
    alpha = upload(params["alpha"].astype(np.float32), x.device)[:, None, None, None]
    sharp = residual.mul_(alpha).add_(x).clamp_(0, 1)
    return sharp.mul_(mask).add_(x * (1 - mask)).clamp_(0, 1)


@prepare.register
def _zoom(operation: ZoomBlur, device: torch.device) -> Step:
    # On a CPU, OpenCV takes a twentieth of the time.
    return host_step(*hosted(operation)) if device.type == "cpu" else zoom_blur


def zoom_blur(x: Tensor, params: Params) -> Tensor:
    """Carry out a ZoomBlur, one zoom of all images at a time."""
    size = (int(x.shape[2]), int(x.shape[3]))
    plans = [
        zooms(step, most) for step, most in zip(params["step"], params["largest"], strict=True)
    ]
    total = x.clone()
    for number in range(max(map(len, plans))):
        factors = np.array([plan[number] if number < len(plan) else 0.0 for plan in plans])
        zoomed = x
        for axis in (2, 3):
            pixel, weight = zip(*(_line(size[axis - 2], factor) for factor in factors), strict=True)
            zoomed = _interpolate(zoomed, axis, np.stack(pixel), np.stack(weight))
        used = upload((factors > 0).astype(np.float32), x.device)[:, None, None, None]
        total += zoomed * used
    num = np.array([len(plan) + 1 for plan in plans])
    return total.div_(upload(num.astype(np.float32), x.device)[:, None, None, None]).clamp_(0, 1)


def _line(length: int, factor: float) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return for each new pixel which one is interpolated with the next, and the weight of that."""
    start, short, long, trim = zoom_window(length, factor) if factor else (0, length, length, 0)
    pixel = (np.arange(trim, trim + length) + 0.5) * (short / long) - 0.5
    pixel = np.clip(pixel, 0, short - 1)
    first = np.minimum(pixel.astype(np.int64), max(short - 2, 0))
    return first + start, (pixel - first).astype(np.float32)


def _interpolate(
    x: Tensor, axis: int, pixel: NDArray[np.int64], weight: NDArray[np.float32]
) -> Tensor:
    shape = [len(x), 1, 1, 1]
    shape[axis] = pixel.shape[1]
    following = np.minimum(pixel + 1, x.shape[axis] - 1)
    first, second = (
        x.gather(axis, upload(index, x.device).view(shape).expand_as(x))
        for index in (pixel, following)
    )
    return torch.lerp(first, second, upload(weight, x.device).view(shape))


@prepare.register
def _median(operation: MedianBlur, device: torch.device) -> Step:
    sizes = operation.kernel_size
    low, high = (sizes, sizes) if isinstance(sizes, int) else sizes
    if device.type == "cpu":
        return host_step(_median_on_host, "uint8")

    def apply(x: Tensor, params: Params) -> Tensor:
        for size in range(low, high + 1, 2):
            x = on_rows(partial(_median_step, size), x, {"apply": params["size"] == size})
        return x

    return apply


def _median_on_host(image: NDArray[np.uint8], params: Params, row: int) -> NDArray[np.uint8]:
    import cv2

    result: NDArray[np.uint8] = cv2.medianBlur(image, int(params["size"][row]))
    return result


def _median_step(size: int, x: Tensor, _: Params) -> Tensor:
    return median(x, size)


def median(x: Tensor, size: int) -> Tensor:
    """Take 8-bit medians over squares, [n, 3, H, W], one image at a time: a square is stored per pixel."""
    levels = x if x.dtype == torch.uint8 else x.mul(255).round_().clamp_(0, 255).to(torch.uint8)
    radius = size // 2
    images = []
    for image in levels:
        edge = F.pad(image[None].half(), (radius,) * 4, mode="replicate")[0]
        squares = edge.unfold(1, size, 1).unfold(2, size, 1).flatten(3)
        images.append(squares.sort(dim=-1).values[..., size * size // 2])
    result = torch.stack(images)
    return result.to(torch.uint8) if x.dtype == torch.uint8 else to_unit_(result.float())


@prepare.register
def _downscale(operation: Downscale, _device: torch.device) -> Step:
    if not operation.is_nearest:
        return host_step(*hosted(operation))

    def apply(x: Tensor, params: Params) -> Tensor:
        for axis in (2, 3):
            source = operation.sources(params, int(x.shape[axis]))
            shape = [len(x), 1, 1, 1]
            shape[axis] = source.shape[1]
            x = x.gather(axis, upload(source, x.device).view(shape).expand_as(x))
        return x if x.dtype == torch.uint8 else to_unit_(x.mul_(255).round_().clamp_(0, 255))

    return apply


@prepare.register(JPEG)
@prepare.register(WebP)
@prepare.register(ChromaticAberration)
@prepare.register(GlassBlur)
@prepare.register(Spatter)
@prepare.register(Superpixels)
def _on_host(
    operation: JPEG | WebP | ChromaticAberration | GlassBlur | Spatter | Superpixels,
    _device: torch.device,
) -> Step:
    return host_step(*hosted(operation))


def convolve(x: Tensor, kernel: Kernels) -> Tensor:
    """Convolve each image [n, C, H, W] with its kernel, mirroring it at its border.

    Args:
        x: float32.
        kernel: float64 [n, k, k], or [n, 2, k]: a column and a row; on the host. Not flipped.
    """
    num, channels, height, width = x.shape
    radius = kernel.shape[2] // 2
    parts = (
        [kernel]
        if kernel.shape[1] == kernel.shape[2]
        else [kernel[:, 0, :, None], kernel[:, 1, None]]
    )
    for part in parts:
        tall, wide = (radius if side > 1 else 0 for side in part.shape[1:])
        x = mirrored(x, tall, wide).reshape(1, num * channels, height + 2 * tall, width + 2 * wide)
        # repeat_interleave of the weights: the channels of an image share its kernel.
        weights = upload(part.astype(np.float32), x.device)[:, None, None].expand(
            -1, channels, -1, -1, -1
        )
        x = F.conv2d(x, weights.reshape(num * channels, 1, *part.shape[1:]), groups=num * channels)
        x = x.view(num, channels, height, width)
    return x


def mirrored(x: Tensor, tall: int, wide: int) -> Tensor:
    """Add ``tall`` rows above and below and ``wide`` columns beside, mirrored without the edge."""
    height, width = x.shape[2:]
    if tall < height and wide < width:
        return F.pad(x, (wide, wide, tall, tall), mode="reflect")
    for axis, (length, margin) in enumerate(((height, tall), (width, wide)), start=2):
        period = max(2 * (length - 1), 1)
        pixel = np.arange(-margin, length + margin) % period
        x = x.index_select(axis, upload(np.minimum(pixel, period - pixel) % length, x.device))
    return x
