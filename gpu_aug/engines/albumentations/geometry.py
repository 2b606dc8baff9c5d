"""Operations that move pixels, in Albumentations and OpenCV."""

import albumentations as A
import cv2
import numpy as np
import torch
from torch.nn import functional as F

from gpu_aug.draws import Params
from gpu_aug.engines.albumentations.step import Image, Step, carries_out, inject, prepare
from gpu_aug.engines.sources import nearest_pixels
from gpu_aug.ops.geometric.spatial import Crop, Reorient, Resample, Spatial

BORDERS = {
    "constant": cv2.BORDER_CONSTANT,
    "edge": cv2.BORDER_REPLICATE,
    "reflect": cv2.BORDER_REFLECT_101,
    "symmetric": cv2.BORDER_REFLECT,
}
_INTERPOLATIONS = {
    "bilinear": cv2.INTER_LINEAR,
    "bicubic": cv2.INTER_CUBIC,
    "area": cv2.INTER_AREA,
}


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


@carries_out
def _crop(operation: Crop, image: Image, params: Params, row: int) -> Image:
    return cut(operation, image, params["start"][row], params["shape"][row])


@carries_out
def _resample(operation: Resample, image: Image, params: Params, row: int) -> Image:
    part = cut(operation, image, params["start"][row], params["shape"][row])
    area = "area" in params and params["area"][row]
    way = "area" if area else operation.interpolation
    return resize(part, params["resize"][row].tolist(), way, antialias=operation.antialias)


def cut(operation: Spatial, image: Image, start: np.ndarray, shape: np.ndarray) -> Image:
    """Cut a rectangle out of an image [H, W, 3], and pad where it leaves the image."""
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
            value=fill_color(operation.fill, image),
        )
    return image[top + above : bottom + above, left + before : right + before]


def resize(image: Image, size: list[int], interpolation: str, *, antialias: bool) -> Image:
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


def fill_color(fill: float | tuple[float, float, float], image: Image) -> list[float]:
    """Return a fill, one value or three, in the type of ``image``; uint8 is rounded."""
    values = np.array(np.broadcast_to(np.array(fill, np.float64), 3))
    if image.dtype == np.uint8:
        values = np.clip(np.rint(values * 255), 0, 255)
    return [*values.tolist(), 0.0]
