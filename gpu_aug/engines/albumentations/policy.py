"""The operations that policies choose from, in NumPy.

Albumentations' own transforms round to nearest; torchvision's rounding down is part of a policy.
"""

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from gpu_aug.draws import Params
from gpu_aug.engines.albumentations.step import Image, Step, prepare
from gpu_aug.ops.geometric.spatial import Warp
from gpu_aug.ops.policy.policy import AugMix
from gpu_aug.ops.policy.space import BLENDS, ROUND_UP, PolicyBlend, PolicyWarp

Floats = NDArray[np.float32]


@prepare.register
def _policy_warp(operation: PolicyWarp) -> Step:
    warp: Step = prepare.dispatch(Warp)(operation)
    if operation.interpolation == "nearest":
        return warp

    def rounded(image: Image, params: Params, row: int) -> Image:
        values = np.floor(warp(image, params, row) * np.float32(255) + np.float32(ROUND_UP))
        clipped: Image = np.clip(values, 0, 255) / np.float32(255)
        return clipped

    return rounded


@prepare.register
def _blend(_: PolicyBlend) -> Step:
    functions: dict[str, Callable[[Floats, Any, Any], Floats]] = dict(
        zip(BLENDS, (_brightness, _color, _contrast, _sharpness), strict=True)
    )

    def blend(image: Image, params: Params, row: int) -> Image:
        function = functions[BLENDS[params["kind"][row]]]
        factor = params["factor"][row]
        is_uint8 = image.dtype == np.uint8
        whole = image.astype(np.float32) if is_uint8 else np.clip(np.rint(image * 255), 0, 255)
        changed = function(whole.astype(np.float32), np.float32(factor), np.float32(1 - factor))
        changed = np.floor(np.clip(changed, 0, 255))
        return changed.astype(np.uint8) if is_uint8 else changed / np.float32(255)

    return blend


@prepare.register
def _augmix(operation: AugMix) -> Step:
    steps = [prepare(carrier) for carrier in operation.carriers]

    def mix(image: Image, params: Params, row: int) -> Image:
        weights = params["weights"][row].astype(np.float32)
        chains = [image] * operation.mixture_width
        for chain, carrier, drawn in operation.carried(params):
            if drawn["apply"][row]:
                chains[chain] = steps[carrier](chains[chain], drawn, row)
        mixed: Image = image * weights[0]
        for changed, weight in zip(chains, weights[1:], strict=True):
            mixed += changed * weight
        return mixed

    return mix


def _brightness(x: Floats, factor: Any, _: Any) -> Floats:
    product: Floats = x * factor
    return product


def _color(x: Floats, factor: Any, rest: Any) -> Floats:
    return _add(x * factor, _gray(x)[:, :, None], rest)


def _contrast(x: Floats, factor: Any, rest: Any) -> Floats:
    mean = np.float32(_gray(x).mean(dtype=np.float64))
    return _add(x * factor, mean, rest)


def _sharpness(x: Floats, _: Any, rest: Any) -> Floats:
    if min(x.shape[:2]) <= 2:
        return x
    kernel = np.ones((3, 3), np.float32)
    kernel[1, 1] = 5
    total = cv2.filter2D(x, -1, kernel)[1:-1, 1:-1]
    blurred = np.floor((2 * total + 13) / 26)  # round(total / 13), which is never a half
    inner = x[1:-1, 1:-1]
    sharp = x.copy()
    sharp[1:-1, 1:-1] = _add(inner, blurred - inner, rest)
    return sharp


def _gray(x: Floats) -> Floats:
    red, green, blue = x.transpose(2, 0, 1)
    weights = np.array([0.2989, 0.587, 0.114], np.float32)
    return np.floor(_add(_add(red * weights[0], green, weights[1]), blue, weights[2]))


def _add(a: Any, b: Any, factor: Any) -> Floats:
    """Return a + factor * b, rounded to float32 once, as torch's add with alpha does."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    total: Floats = (a + b * np.float64(factor)).astype(np.float32)
    return total
