"""Operations that exist on the CPU only, carried out by the same code in every engine."""

from collections.abc import Callable
from functools import partial, singledispatch
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from gpu_aug.draws import Params
from gpu_aug.errors import EngineError
from gpu_aug.ops import (
    JPEG,
    ChromaticAberration,
    Downscale,
    GlassBlur,
    Operation,
    Spatter,
    Superpixels,
    WebP,
    ZoomBlur,
)
from gpu_aug.ops.blur.lens import zoom_window, zooms
from gpu_aug.random_fields import normal_field, uniform_field

Image = NDArray[Any]
Function = Callable[[Image, Params, int], Image]
"""One image [H, W, 3], the parameters of the batch and the image's row in, a new image out."""

_CPU = torch.device("cpu")
_COLORS = {"rain": (238, 238, 175), "mud": (20, 42, 63)}  # Albumentations' defaults


@singledispatch
def hosted(operation: Operation) -> tuple[Function, Literal["uint8", "float32"]]:
    """Return what carries out ``operation`` on one image, and the type of image that it takes."""
    raise EngineError(f"{type(operation).__name__} has no function for the CPU")


def cv2_sampling(name: str) -> int:
    """Return OpenCV's number of a sampling; see gpu_aug.ops.blur.lens.SAMPLINGS."""
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


@hosted.register(JPEG)
@hosted.register(WebP)
def _coded(operation: JPEG | WebP) -> tuple[Function, Literal["uint8", "float32"]]:
    import cv2

    suffix, flag = (
        (".jpg", cv2.IMWRITE_JPEG_QUALITY)
        if isinstance(operation, JPEG)
        else (".webp", cv2.IMWRITE_WEBP_QUALITY)
    )
    as_bgr = operation.channels == "bgr"

    def code(image: Image, params: Params, row: int) -> Image:
        bgr = image if as_bgr else cv2.cvtColor(image, cv2.COLOR_RGB2BGR)
        _, encoded = cv2.imencode(suffix, bgr, [int(flag), int(params["quality"][row])])
        decoded: Any = cv2.imdecode(encoded, cv2.IMREAD_UNCHANGED)
        result: Image = decoded if as_bgr else cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB)
        return result

    return code, "uint8"


@hosted.register
def _downscale(operation: Downscale) -> tuple[Function, Literal["uint8", "float32"]]:
    import cv2

    down, up = cv2_sampling(operation.down), cv2_sampling(operation.up)

    def downscale(image: Image, params: Params, row: int) -> Image:
        scale = float(params["scale"][row])
        height, width = image.shape[:2]
        if min(round(height * scale), round(width * scale)) < 1:  # at least one pixel
            small_size = (max(round(width * scale), 1), max(round(height * scale), 1))
            small = cv2.resize(image, small_size, interpolation=down)
        else:
            small = cv2.resize(image, None, fx=scale, fy=scale, interpolation=down)
        result: Image = cv2.resize(small, (width, height), interpolation=up)
        return result

    return downscale, "uint8"


@hosted.register
def _glass(operation: GlassBlur) -> tuple[Function, Literal["uint8", "float32"]]:
    from albumentations.augmentations.blur.functional import glass_blur

    delta, iterations = operation.max_delta, operation.iterations

    def blur(image: Image, params: Params, row: int) -> Image:
        inner = [max(side - 2 * delta, 0) for side in image.shape[:2]]
        num = inner[0] * inner[1]
        dice = uniform_field(params["key"][row : row + 1], (num, iterations, 2), _CPU)[0].numpy()
        swaps = np.floor(dice * (2 * delta)).astype(np.int64) - delta
        result: Image = glass_blur(
            image, operation.sigma, delta, iterations if num else 0, swaps, operation.mode
        )
        return result

    return blur, "float32"


@hosted.register
def _zoom(_: ZoomBlur) -> tuple[Function, Literal["uint8", "float32"]]:
    import cv2

    def apply(image: Image, params: Params, row: int) -> Image:
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

    return apply, "float32"


@hosted.register
def _aberration(operation: ChromaticAberration) -> tuple[Function, Literal["uint8", "float32"]]:
    from albumentations.augmentations.pixel.functional import chromatic_aberration

    sampling = cv2_sampling(operation.sampling)

    def distort(image: Image, params: Params, row: int) -> Image:
        coefficients = (*params["red"][row], *params["blue"][row])
        result: Image = chromatic_aberration(image, *map(float, coefficients), sampling)
        return result

    return distort, "uint8"


@hosted.register
def _superpixels(operation: Superpixels) -> tuple[Function, Literal["uint8", "float32"]]:
    from albumentations.augmentations.pixel.functional import superpixels

    sampling = cv2_sampling(operation.sampling)

    def replace(image: Image, params: Params, row: int) -> Image:
        num = int(params["num_segments"][row])
        chosen = params["replace"][row, :num]
        result: Image = superpixels(image, num, chosen, operation.max_size, sampling)
        return result

    return replace, "uint8"


@hosted.register
def _spatter(operation: Spatter) -> tuple[Function, Literal["uint8", "float32"]]:
    import cv2
    from albumentations.augmentations.pixel import functional

    color = np.array(operation.color or np.divide(_COLORS[operation.mode], 255))

    def spatter(image: Image, params: Params, row: int) -> Image:
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
        mud = functional.get_mud_params(
            layer, color, cutout, sigma, value["intensity"], _Chooser(dice)
        )
        muddy: Image = functional.spatter_mud(image, mud["non_mud"], mud["mud"])
        return muddy

    return spatter, "float32"


class _Chooser:
    """A generator that draws different numbers below ``len(dice)`` by the order of ``dice``."""

    def __init__(self, dice: NDArray[np.float32]) -> None:
        self.choice = partial(_smallest, dice)


def _smallest(
    dice: NDArray[np.float32], _limit: int, num: int, *, replace: bool
) -> NDArray[np.int64]:
    assert not replace
    order: NDArray[np.int64] = np.argsort(dice, kind="stable")
    return order[:num]
