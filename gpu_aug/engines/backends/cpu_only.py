"""Functions on one image on the CPU that all engines share, for operations that exist in one library only."""

from collections.abc import Callable
from functools import partial, singledispatch
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from gpu_aug.draws import Params
from gpu_aug.errors import EngineError
from gpu_aug.ops import (
    CLAHE,
    JPEG,
    ChromaticAberration,
    Downscale,
    GlassBlur,
    MedianBlur,
    Operation,
    Spatter,
    Superpixels,
    WebP,
    ZoomBlur,
)
from gpu_aug.ops.imported.filters import zoom_window, zooms
from gpu_aug.random_fields import normal_field, uniform_field

Image = NDArray[Any]
Function = Callable[[Image, Params, int], Image]
"""One image [H, W, 3], the parameters of the batch and the image's row in, a new image out."""

Dtype = Literal["uint8", "float32"]

F = TypeVar("F", bound=Callable[..., Image])

_CPU = torch.device("cpu")  # all images here are NumPy arrays
_COLORS = {"rain": (238, 238, 175), "mud": (20, 42, 63)}  # Albumentations' defaults


@singledispatch
def cpu_only_function(operation: Operation) -> tuple[Function, Dtype]:
    """Return the function that carries out ``operation`` on one image, and the dtype of image that it takes."""
    raise EngineError(f"{type(operation).__name__} has no function for the CPU")


def cv2_sampling(name: str) -> int:
    """Return the OpenCV flag (cv2.INTER_*) of an interpolation name; see gpu_aug.ops.imported.filters.Sampling."""
    import cv2

    flags = {
        "nearest": cv2.INTER_NEAREST,
        "nearest_exact": cv2.INTER_NEAREST_EXACT,
        "bilinear": cv2.INTER_LINEAR,
        "bilinear_exact": cv2.INTER_LINEAR_EXACT,
        "bicubic": cv2.INTER_CUBIC,
        "area": cv2.INTER_AREA,
        "lanczos": cv2.INTER_LANCZOS4,
    }
    return flags[name]


def _runs_on(dtype: Dtype) -> Callable[[F], F]:
    """Return a decorator that registers ``function(operation, image, params, row)`` for images of ``dtype``.

    The annotation of the first parameter names the operations that the function carries out.
    """

    def register(function: F) -> F:
        kind = next(iter(function.__annotations__.values()))
        cpu_only_function.register(kind, lambda operation: (partial(function, operation), dtype))
        return function

    return register


@_runs_on("uint8")
def _coded(operation: JPEG | WebP, image: Image, params: Params, row: int) -> Image:
    import cv2

    suffix, flag = (
        (".jpg", cv2.IMWRITE_JPEG_QUALITY)
        if isinstance(operation, JPEG)
        else (".webp", cv2.IMWRITE_WEBP_QUALITY)
    )
    as_bgr = operation.channels == "bgr"
    bgr = image if as_bgr else cv2.cvtColor(image, cv2.COLOR_RGB2BGR)
    _, encoded = cv2.imencode(suffix, bgr, [int(flag), int(params["quality"][row])])
    decoded: Any = cv2.imdecode(encoded, cv2.IMREAD_UNCHANGED)
    result: Image = decoded if as_bgr else cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB)
    return result


@_runs_on("uint8")
def _median(_: MedianBlur, image: Image, params: Params, row: int) -> Image:
    import cv2

    result: Image = cv2.medianBlur(image, int(params["size"][row]))
    return result


@_runs_on("uint8")
def _clahe(operation: CLAHE, image: Image, params: Params, row: int) -> Image:
    from gpu_aug.engines.opencv import clahe

    return clahe(image, params["clip_limit"][row], operation.tile_grid_size)


@_runs_on("uint8")
def _downscale(operation: Downscale, image: Image, params: Params, row: int) -> Image:
    import cv2

    down, up = cv2_sampling(operation.down), cv2_sampling(operation.up)
    scale = float(params["scale"][row])
    height, width = image.shape[:2]
    if min(round(height * scale), round(width * scale)) < 1:  # at least one pixel
        small_size = (max(round(width * scale), 1), max(round(height * scale), 1))
        small = cv2.resize(image, small_size, interpolation=down)
    else:
        small = cv2.resize(image, None, fx=scale, fy=scale, interpolation=down)
    result: Image = cv2.resize(small, (width, height), interpolation=up)
    return result


@_runs_on("float32")
def _glass(operation: GlassBlur, image: Image, params: Params, row: int) -> Image:
    from albumentations.augmentations.blur.functional import glass_blur

    delta, iterations = operation.max_delta, operation.iterations
    inner = [max(side - 2 * delta, 0) for side in image.shape[:2]]
    num = inner[0] * inner[1]
    dice = uniform_field(params["key"][row : row + 1], (num, iterations, 2), _CPU)[0].numpy()
    swaps = np.floor(dice * (2 * delta)).astype(np.int64) - delta
    times = iterations if num else 0
    result: Image = glass_blur(image, operation.sigma, delta, times, swaps, operation.mode)
    return result


@_runs_on("float32")
def _zoom(_: ZoomBlur, image: Image, params: Params, row: int) -> Image:
    import cv2

    total = image.copy()
    factors = zooms(params["step"][row], params["largest"][row])
    for factor in factors:
        (top, tall, height, above), (left, wide, width, before) = (
            zoom_window(side, factor) for side in image.shape[:2]
        )
        part = image[top : top + tall, left : left + wide]
        if part.shape[:2] != (height, width):
            part = cv2.resize(part, (width, height), interpolation=cv2.INTER_LINEAR)
        total += part[above : above + image.shape[0], before : before + image.shape[1]]
    return np.clip(total / np.float32(len(factors) + 1), 0, 1)


@_runs_on("uint8")
def _aberration(operation: ChromaticAberration, image: Image, params: Params, row: int) -> Image:
    from albumentations.augmentations.pixel.functional import chromatic_aberration

    coefficients = map(float, (*params["red"][row], *params["blue"][row]))
    sampling = cv2_sampling(operation.sampling)
    result: Image = chromatic_aberration(image, *coefficients, sampling)
    return result


@_runs_on("uint8")
def _superpixels(operation: Superpixels, image: Image, params: Params, row: int) -> Image:
    from albumentations.augmentations.pixel.functional import superpixels

    num = int(params["num_segments"][row])
    chosen, sampling = params["replace"][row, :num], cv2_sampling(operation.sampling)
    short, long = sorted(image.shape[:2])
    if num > short * long:
        return image.copy()  # each pixel is a segment
    # Albumentations first shrinks images to max_size, which leaves no pixel of a very narrow one.
    is_narrow = operation.max_size is not None and short * operation.max_size < long
    most = None if is_narrow else operation.max_size
    result: Image = superpixels(image, num, chosen, most, sampling)
    return result


@_runs_on("float32")
def _spatter(operation: Spatter, image: Image, params: Params, row: int) -> Image:
    import cv2
    from albumentations.augmentations.pixel import functional

    color = np.array(operation.color or np.divide(_COLORS[operation.mode], 255))
    key = params["key"][row : row + 1]
    value = {name: float(params[name][row]) for name in params if params[name].ndim == 1}
    sigma, cutout = value["gauss_sigma"], value["cutout_threshold"]
    layer = normal_field(key, image.shape[:2], _CPU)[0].double().numpy()
    layer = layer * value["std"] + value["mean"]
    width = int(2 * round(3 * sigma) + 1)
    border = cv2.BORDER_REPLICATE
    layer = cv2.GaussianBlur(layer, (width, width), sigmaX=sigma, borderType=border)
    layer[layer < cutout] = 0
    if operation.mode == "rain":
        drops = functional.get_rain_params(layer, color, value["intensity"])["drops"]
        rainy: Image = functional.spatter_rain(image, drops.astype(np.float32))
        return rainy
    dice = uniform_field(key, (layer.size,), _CPU, stream=1)[0].numpy()
    mud = functional.get_mud_params(layer, color, cutout, sigma, value["intensity"], _Chooser(dice))
    muddy: Image = functional.spatter_mud(image, mud["non_mud"], mud["mud"])
    return muddy


class _Chooser:
    """A stand-in for a NumPy generator whose ``choice`` returns distinct indices below ``len(dice)``.

    The indices of the smallest values of ``dice`` come first.
    """

    def __init__(self, dice: NDArray[np.float32]) -> None:
        self.choice = partial(_smallest, dice)


def _smallest(
    dice: NDArray[np.float32], _limit: int, num: int, *, replace: bool
) -> NDArray[np.int64]:
    assert not replace
    order: NDArray[np.int64] = np.argsort(dice, kind="stable")
    return order[:num]
