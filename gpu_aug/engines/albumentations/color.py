"""Operations that change values, in Albumentations."""

import albumentations as A
import cv2
import numpy as np
from albumentations.augmentations.pixel import functional as pixel

from gpu_aug.draws import Params
from gpu_aug.engines.albumentations.step import Image, Step, carries_out, inject, prepare, transform
from gpu_aug.ops import (
    CLAHE,
    ColorJitter,
    Gamma,
    Grayscale,
    HueSaturationValue,
    Invert,
    Normalize,
    Sharpness,
    Solarize,
    ToDtype,
)
from gpu_aug.ops.color.jitter import FACTORS, JitterStep

_SMOOTH = np.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]], np.float32) / 13


@prepare.register
def normalize(operation: Normalize, *, unit: float = 1.0) -> Step:
    """Normalize values in [0, unit]."""
    return transform(A.Normalize(operation.mean, operation.std, max_pixel_value=unit))


@carries_out
def _grayscale(operation: Grayscale, image: Image, _params: Params, _row: int) -> Image:
    # The class ToGray loses an axis of images that are one pixel wide or high.
    return np.repeat(pixel.to_gray(image, 1, operation.method)[..., None], 3, axis=2)


@prepare.register
def _jitter(_: ColorJitter) -> Step:
    return transform(A.ColorJitter(), *FACTORS, "order")


@prepare.register
def _jitter_step(operation: JitterStep) -> Step:
    functions = {
        "brightness": pixel.adjust_brightness_torchvision,
        "contrast": pixel.adjust_contrast_torchvision,
        "saturation": pixel.adjust_saturation_torchvision,
        "hue": pixel.adjust_hue_torchvision,
    }
    function = functions[operation.step]
    return lambda image, params, row: function(image, params["factor"][row])


@carries_out
def _gamma(_: Gamma, image: Image, params: Params, row: int) -> Image:
    return np.asarray(np.power(np.maximum(image, 0), np.float32(params["gamma"][row])))


@prepare.register
def _invert(_: Invert) -> Step:
    return transform(A.InvertImg())


@carries_out
def _solarize(_: Solarize, image: Image, params: Params, row: int) -> Image:
    whole = image.dtype == np.uint8
    value = image.astype(np.float32) / np.float32(255) if whole else image
    inverse = image.dtype.type(255 if whole else 1) - image
    return np.where(value >= np.float32(params["threshold"][row]), inverse, image)


@carries_out
def _sharpness(_: Sharpness, image: Image, params: Params, row: int) -> Image:
    if min(image.shape[:2]) <= 2:
        return image
    smooth = image.copy()
    smooth[1:-1, 1:-1] = cv2.filter2D(image, -1, _SMOOTH)[1:-1, 1:-1]
    factor = float(params["factor"][row])
    blended: Image = np.clip(cv2.addWeighted(image, factor, smooth, 1 - factor, 0), 0, 1)
    return blended


@prepare.register
def _clahe(operation: CLAHE) -> Step:
    return transform(A.CLAHE(tile_grid_size=operation.tile_grid_size), "clip_limit")


@carries_out
def _to_dtype(operation: ToDtype, image: Image, _params: Params, _row: int) -> Image:
    if image.dtype == np.uint8 or operation.dtype != "uint8":
        return image
    rounded: Image = (np.clip(np.rint(image * 255), 0, 255) / 255).astype(np.float32)
    return rounded


@prepare.register
def _shift_hsv(_: HueSaturationValue) -> Step:
    call = A.HueSaturationValue()
    names = ("hue_shift", "sat_shift", "val_shift")

    def shift(image: Image, params: Params, row: int) -> Image:
        return inject(call, image, **{name: float(params[name][row]) for name in names})

    return shift
