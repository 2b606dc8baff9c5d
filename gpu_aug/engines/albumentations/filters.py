"""Operations that mix each pixel with its neighbours, in OpenCV, as Albumentations calls it."""

import cv2
import numpy as np

from gpu_aug.draws import Params
from gpu_aug.engines.albumentations.step import Image, Step, carries_out, prepare
from gpu_aug.engines.hosted import hosted
from gpu_aug.ops import (
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


@carries_out
def _filter(operation: Filter, image: Image, params: Params, row: int) -> Image:
    [kernel] = operation.kernel(only(params, row))
    filtered = convolve(image, kernel)
    return np.clip(filtered, 0, 1, out=filtered) if operation.clamps else filtered


@prepare.register
def _unsharp(operation: UnsharpMask) -> Step:
    threshold = np.float32((operation.threshold + THRESHOLD_MARGIN) / 255)

    def apply(image: Image, params: Params, row: int) -> Image:
        [kernel] = operation.kernel(only(params, row))
        residual = image - convolve(image, kernel)
        mask = convolve((np.abs(residual) > threshold).astype(np.float32), kernel)
        sharp = np.clip(image + np.float32(params["alpha"][row]) * residual, 0, 1)
        blended: Image = np.clip(sharp * mask + image * (1 - mask), 0, 1)
        return blended

    return apply


@prepare.register
def _median(_: MedianBlur) -> Step:
    def apply(image: Image, params: Params, row: int) -> Image:
        result: Image = cv2.medianBlur(image, int(params["size"][row]))
        return result

    return _typed(apply, "uint8")


@prepare.register(JPEG)
@prepare.register(WebP)
@prepare.register(ZoomBlur)
@prepare.register(ChromaticAberration)
@prepare.register(Downscale)
@prepare.register(GlassBlur)
@prepare.register(Spatter)
@prepare.register(Superpixels)
def _hosted(operation: Operation) -> Step:
    return _typed(*hosted(operation))


def _typed(function: Step, dtype: str) -> Step:
    """Call ``function`` with images of ``dtype``; what it makes of float32 is float32."""

    def apply(image: Image, params: Params, row: int) -> Image:
        if dtype == "uint8" and image.dtype != np.uint8:
            rounded = np.clip(np.rint(image * np.float32(255)), 0, 255).astype(np.uint8)
            return function(rounded, params, row).astype(np.float32) / np.float32(255)
        return function(image, params, row)

    return apply


def only(params: Params, row: int) -> Params:
    """Return the parameters of one image, first axis 1."""
    return {name: values[row : row + 1] for name, values in params.items()}


def convolve(image: Image, kernel: Kernels) -> Image:
    """Convolve with a kernel [k, k], or [2, k]: a column and a row; mirror at the border."""
    if kernel.shape[0] == kernel.shape[1]:
        result: Image = cv2.filter2D(image, -1, kernel, borderType=cv2.BORDER_REFLECT_101)
    else:
        column, row = kernel
        result = cv2.sepFilter2D(image, -1, row, column, borderType=cv2.BORDER_REFLECT_101)
    return result
