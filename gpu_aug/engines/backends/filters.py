"""Filters: operations that compute each pixel from its neighbours.

Kornia allows one kernel size per batch and pads differently, so batches are filtered in torch. Single images are filtered
with OpenCV, as in Albumentations.
"""

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from gpu_aug.draw_operations import row_of
from gpu_aug.draws import Params
from gpu_aug.engines.backends.cpu_only import cpu_only_function
from gpu_aug.engines.backends.step import (
    Image,
    NumpyStep,
    TorchStep,
    host_step_numpy,
    host_step_torch,
    numpy_step,
    on_rows,
    prepare_numpy,
    prepare_torch,
    torch_step,
)
from gpu_aug.engines.layout import to_levels, to_unit_
from gpu_aug.engines.sources import fold
from gpu_aug.ops import (
    CLAHE,
    JPEG,
    ChromaticAberration,
    Downscale,
    Filter,
    GlassBlur,
    MedianBlur,
    Operation,
    Spatter,
    Superpixels,
    UnsharpMask,
    WebP,
    ZoomBlur,
)
from gpu_aug.ops.blur.edges import THRESHOLD_MARGIN
from gpu_aug.ops.blur.kernels import Kernels
from gpu_aug.ops.imported.filters import zoom_window, zooms
from gpu_aug.upload import upload

# Images are filtered in strips of about this size: the two buffers of 0.75 MB fit in the cache of a core. With strips of 16,000
# pixels, filters take 1.2 times as long; on a full image of 3 million pixels 1.4 times.
_STRIP_PIXELS = 64_000


@torch_step
def _filter_torch(operation: Filter, x: Tensor, params: Params) -> Tensor:
    filtered = convolve_torch(x, operation.kernel(params))
    return filtered.clamp_(0, 1) if operation.clamps else filtered


@numpy_step
def _filter_numpy(
    operation: Filter, image: Image, params: Params, row: int, out: Image | None = None
) -> Image:
    [kernel] = operation.kernel(row_of(params, row))
    if len(kernel) == 2:  # without the zeros that make all kernels of a batch equally large
        used = kernel.any(axis=0)
        margin = min(used.argmax(), used[::-1].argmax())
        kernel = kernel[:, margin : kernel.shape[1] - margin]
    result: Image = np.empty(image.shape, np.float32) if out is None else out
    rounds, was_bytes = result.dtype == np.uint8, image.dtype == np.uint8
    size = kernel.shape[1]
    if rounds and was_bytes and len(kernel) == 2 and (kernel == 1 / size).all():
        # A mean of an odd number of bytes never lies half-way between two bytes, so it rounds alike in whole numbers.
        cv2.blur(image, (size, size), result, borderType=cv2.BORDER_REFLECT_101)
        return result
    (height, width), radius = image.shape[:2], size // 2
    num = max(_STRIP_PIXELS // width, 8 * radius, 1)
    room = np.empty((2, min(num + 2 * radius, height), width, 3), np.float32)
    for top in range(0, height, num):
        first = max(top - radius, 0)
        filtered = convolve_numpy(image[first : top + num + radius], kernel, room)
        strip, target = filtered[top - first : top - first + num], result[top : top + num]
        if operation.clamps or (rounds and not was_bytes):
            np.clip(strip, 0, 1, out=strip)
        if rounds:
            cv2.convertScaleAbs(strip, target, alpha=255)
        else:
            target[...] = strip
    return result


@torch_step
def _unsharp_torch(operation: UnsharpMask, x: Tensor, params: Params) -> Tensor:
    threshold = (operation.threshold + THRESHOLD_MARGIN) / 255
    kernel = operation.kernel(params)
    residual = x - convolve_torch(x, kernel)
    mask = convolve_torch((residual.abs() > threshold).float(), kernel)
    alpha = upload(params["alpha"].astype(np.float32), x.device)[:, None, None, None]
    sharp = residual.mul_(alpha).add_(x).clamp_(0, 1)
    return sharp.mul_(mask).add_(x * (1 - mask)).clamp_(0, 1)


@numpy_step
def _unsharp_numpy(operation: UnsharpMask, image: Image, params: Params, row: int) -> Image:
    threshold = np.float32((operation.threshold + THRESHOLD_MARGIN) / 255)
    [kernel] = operation.kernel(row_of(params, row))
    residual = image - convolve_numpy(image, kernel)
    mask = convolve_numpy((np.abs(residual) > threshold).astype(np.float32), kernel)
    sharp = np.clip(image + np.float32(params["alpha"][row]) * residual, 0, 1)
    blended: Image = np.clip(sharp * mask + image * (1 - mask), 0, 1)
    return blended


@prepare_torch.register
def _zoom(operation: ZoomBlur, device: torch.device) -> TorchStep:
    # On a CPU, OpenCV takes a twentieth of the time.
    return host_step_torch(*cpu_only_function(operation)) if device.type == "cpu" else zoom_blur


def zoom_blur(x: Tensor, params: Params) -> Tensor:
    """Return images [n, 3, H, W] after a ZoomBlur; each zoom is computed for all images at once."""
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
    """Return the taps of one zoomed axis.

    Returns:
        For each output pixel, the index of the first of the two input pixels that are interpolated, and the weight of the
        second one.
    """
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


@prepare_torch.register
def _median_torch(operation: MedianBlur, device: torch.device) -> TorchStep:
    if device.type == "cpu":
        return host_step_torch(*cpu_only_function(operation))

    def apply(x: Tensor, params: Params) -> Tensor:
        for size in np.unique(params["size"]).tolist():
            chosen = {"apply": params["size"] == size, "size": params["size"]}
            x = on_rows(lambda images, drawn: median(images, int(drawn["size"][0])), x, chosen)
        return x

    return apply


def median(x: Tensor, size: int) -> Tensor:
    """Return the median over ``size`` x ``size`` squares of images [n, 3, H, W], computed in 8 bits.

    Images are processed one at a time, because the square of every pixel is held in memory.
    """
    levels = x if x.dtype == torch.uint8 else to_levels(x).to(torch.uint8)
    radius = size // 2
    images = []
    for image in levels:
        edge = F.pad(image[None].half(), (radius,) * 4, mode="replicate")[0]
        squares = edge.unfold(1, size, 1).unfold(2, size, 1).flatten(3)
        images.append(squares.sort(dim=-1).values[..., size * size // 2])
    result = torch.stack(images)
    return result.to(torch.uint8) if x.dtype == torch.uint8 else to_unit_(result.float())


@prepare_torch.register
def _downscale(operation: Downscale, _device: torch.device) -> TorchStep:
    if not operation.is_nearest:
        return host_step_torch(*cpu_only_function(operation))

    def apply(x: Tensor, params: Params) -> Tensor:
        for axis in (2, 3):
            source = operation.sources(params, int(x.shape[axis]))
            shape = [len(x), 1, 1, 1]
            shape[axis] = source.shape[1]
            x = x.gather(axis, upload(source, x.device).view(shape).expand_as(x))
        return x if x.dtype == torch.uint8 else to_unit_(x.mul_(255).round_().clamp_(0, 255))

    return apply


@prepare_torch.register(CLAHE)
@prepare_torch.register(JPEG)
@prepare_torch.register(WebP)
@prepare_torch.register(ChromaticAberration)
@prepare_torch.register(GlassBlur)
@prepare_torch.register(Spatter)
@prepare_torch.register(Superpixels)
def _on_host(
    operation: CLAHE | JPEG | WebP | ChromaticAberration | GlassBlur | Spatter | Superpixels,
    _device: torch.device,
) -> TorchStep:
    return host_step_torch(*cpu_only_function(operation))


def convolve_torch(x: Tensor, kernel: Kernels) -> Tensor:
    """Convolve each image [n, C, H, W] with its own kernel; borders are mirrored without the edge pixel.

    Args:
        x: The images, float32.
        kernel: The kernels, float64 on the host: [n, k, k], or [n, 2, k] for a column and a row that are applied in
            turn. Kernels are not flipped.
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


def convolve_numpy(image: Image, kernel: Kernels, room: Image | None = None) -> Image:
    """Convolve an image with a kernel [k, k], or [2, k] for a column and a row that are applied in turn.

    Borders are mirrored without the edge pixel.

    Args:
        image: The image, float32, or uint8, which is divided by 255.
        kernel: The kernel, float64.
        room: Memory for two images, float32 [2, H, W, 3], whose end the result is in; H may be larger than that of the image.

    Returns:
        The result, float32.
    """
    spare, out = (None, None) if room is None else room[:, : len(image)]
    border, is_bytes = cv2.BORDER_REFLECT_101, image.dtype == np.uint8
    if kernel.shape[0] == kernel.shape[1]:
        if is_bytes:
            # A product with 3 / 765 is the correctly rounded quotient for all bytes, in 0.7 of the time of NumPy's division.
            image = cv2.sepFilter2D(image, cv2.CV_32F, np.array([3.0]), np.array([1 / 765]), spare)
        result: Image = cv2.filter2D(image, cv2.CV_32F, kernel, out, borderType=border)
    else:
        column, row = kernel
        row = row / 255 if is_bytes else row
        result = cv2.sepFilter2D(image, cv2.CV_32F, row, column, out, borderType=border)
    return result


def mirrored(x: Tensor, tall: int, wide: int) -> Tensor:
    """Return images padded by ``tall`` rows at top and bottom and ``wide`` columns at each side (reflect padding)."""
    height, width = x.shape[2:]
    if tall < height and wide < width:
        return F.pad(x, (wide, wide, tall, tall), mode="reflect")
    for axis, (length, margin) in enumerate(((height, tall), (width, wide)), start=2):
        pixels = fold(np.arange(-margin, length + margin), length, "reflect")
        x = x.index_select(axis, upload(pixels, x.device))
    return x


@prepare_numpy.register(CLAHE)
@prepare_numpy.register(JPEG)
@prepare_numpy.register(MedianBlur)
@prepare_numpy.register(WebP)
@prepare_numpy.register(ZoomBlur)
@prepare_numpy.register(ChromaticAberration)
@prepare_numpy.register(Downscale)
@prepare_numpy.register(GlassBlur)
@prepare_numpy.register(Spatter)
@prepare_numpy.register(Superpixels)
def _cpu_only_numpy(operation: Operation) -> NumpyStep:
    return host_step_numpy(*cpu_only_function(operation))
