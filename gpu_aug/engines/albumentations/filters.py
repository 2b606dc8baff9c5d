"""Operations that mix each pixel with its neighbours, in OpenCV, as Albumentations calls it."""

import cv2
import numpy as np

from gpu_aug.draw_operations import row_of
from gpu_aug.draws import Params
from gpu_aug.engines.albumentations.step import Image, Step, carries_out, host_step, prepare
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
    [kernel] = operation.kernel(row_of(params, row))
    filtered = convolve(image, kernel)
    return np.clip(filtered, 0, 1, out=filtered) if operation.clamps else filtered


@carries_out
def _unsharp(operation: UnsharpMask, image: Image, params: Params, row: int) -> Image:
    threshold = np.float32((operation.threshold + THRESHOLD_MARGIN) / 255)
    [kernel] = operation.kernel(row_of(params, row))
    residual = image - convolve(image, kernel)
    mask = convolve((np.abs(residual) > threshold).astype(np.float32), kernel)
    sharp = np.clip(image + np.float32(params["alpha"][row]) * residual, 0, 1)
    blended: Image = np.clip(sharp * mask + image * (1 - mask), 0, 1)
    return blended


@prepare.register
def _median(_: MedianBlur) -> Step:
    def apply(image: Image, params: Params, row: int) -> Image:
        result: Image = cv2.medianBlur(image, int(params["size"][row]))
        return result

    return host_step(apply, "uint8")


@prepare.register(JPEG)
@prepare.register(WebP)
@prepare.register(ZoomBlur)
@prepare.register(ChromaticAberration)
@prepare.register(Downscale)
@prepare.register(GlassBlur)
@prepare.register(Spatter)
@prepare.register(Superpixels)
def _hosted(operation: Operation) -> Step:
    return host_step(*hosted(operation))


def convolve(image: Image, kernel: Kernels) -> Image:
    """Convolve with a kernel [k, k], or [2, k]: a column and a row; mirror at the border."""
    if kernel.shape[0] == kernel.shape[1]:
        result: Image = cv2.filter2D(image, -1, kernel, borderType=cv2.BORDER_REFLECT_101)
    else:
        column, row = kernel
        result = cv2.sepFilter2D(image, -1, row, column, borderType=cv2.BORDER_REFLECT_101)
    return result
