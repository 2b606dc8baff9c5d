"""Operations that move pixels, in Albumentations."""

import albumentations as A
import cv2

from gpu_aug.draws import Params
from gpu_aug.engines.albumentations.step import Image, Step, inject, prepare
from gpu_aug.errors import EngineError
from gpu_aug.ops.spatial import Crop, Reorient, Resample, Warp


@prepare.register
def _reorient(_: Reorient) -> Step:
    steps = {
        "transpose": A.Transpose(),
        "top_bottom": A.VerticalFlip(),
        "left_right": A.HorizontalFlip(),
    }

    def reorient(image: Image, params: Params, row: int) -> Image:
        for name, call in steps.items():
            if params[name][row]:
                image = inject(call, image)
        return image

    return reorient


@prepare.register
def _warp(operation: Warp) -> Step:
    if int(cv2.__version__.split(".")[0]) < 5:
        raise EngineError(
            "engine 'albumentations' cannot carry out warps exactly with OpenCV "
            f"{cv2.__version__}, which warps on a grid of 1/32 pixel: install OpenCV 5 or newer, "
            "or use engine 'kornia'"
        )
    call = A.Affine(fill=operation.fill)

    def warp(image: Image, params: Params, row: int) -> Image:
        return inject(call, image, matrix=params["matrix"][row], output_shape=image.shape[:2])

    return warp


@prepare.register
def _crop(_: Crop) -> Step:
    call = A.CenterCrop(1, 1, pad_if_needed=True)

    def crop(image: Image, params: Params, row: int) -> Image:
        (top, left), (height, width) = params["start"][row], params["shape"][row]
        above, before = max(-top, 0), max(-left, 0)
        padding = {
            "pad_top": above,
            "pad_left": before,
            "pad_bottom": max(height - image.shape[0] - above, 0),
            "pad_right": max(width - image.shape[1] - before, 0),
        }
        top, left = max(top, 0), max(left, 0)
        return inject(
            call,
            image,
            pad_params=padding,
            crop_coords=(left, top, left + width, top + height),
        )

    return crop


@prepare.register
def _resample(operation: Resample) -> Step:
    if operation.antialias:
        raise EngineError(
            f"engine 'albumentations' cannot carry out {type(operation).__name__} with "
            "antialias=True after the decode stage: use engine 'kornia' or antialias=False"
        )

    def resample(image: Image, params: Params, row: int) -> Image:
        (top, left), (height, width) = params["start"][row], params["shape"][row]
        call = A.RandomResizedCrop(params["resize"][row].tolist())
        return inject(call, image, crop_coords=(left, top, left + width, top + height))

    return resample
