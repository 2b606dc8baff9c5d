"""The Albumentations engine: Albumentations' own transforms, on the CPU, with our parameters.

Transforms are called through ``apply_with_params``, which draws nothing and stores nothing, so
threads can share them. Images are float32 in [0, 1] before the first operation that would round
in uint8.
"""

import os
from collections.abc import Callable
from functools import singledispatch
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from gpu_aug.draws import Draws, Params
from gpu_aug.engines.engine import num_exact
from gpu_aug.engines.layout import write
from gpu_aug.errors import EngineError
from gpu_aug.ops import (
    CenterCrop,
    ColorJitter,
    GaussianBlur,
    Grayscale,
    HorizontalFlip,
    Normalize,
    Operation,
    RandomAffine,
    RandomErasing,
    RandomResizedCrop,
    Resize,
    VerticalFlip,
)
from gpu_aug.ops.colour import FACTORS
from gpu_aug.recipe import Recipe

os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")  # importing it would look on the network

import albumentations as A
import cv2

Image = NDArray[Any]
Step = Callable[[Image, Params, int], Image]
"""One image [H, W, 3], the parameters of the batch and the image's row in, a new image out."""


class AlbumentationsEngine:
    """The batch stage of a recipe in Albumentations; see Engine for the contract."""

    name = "albumentations"

    def __init__(self, recipe: Recipe, *, device: torch.device) -> None:
        if device.type != "cpu":
            raise EngineError(
                f"engine 'albumentations' runs on the CPU only, got device {str(device)!r}: "
                "use engine 'kornia' or device 'cpu'"
            )
        operations = recipe.batch_operations
        self._num_exact = num_exact(operations)
        steps = [prepare(operation) for operation in operations]
        # Straight from uint8 to Normalize: one pass over the images less.
        self._divide = True
        following = operations[self._num_exact :]
        if following and isinstance(following[0], Normalize):
            self._divide = False
            steps[self._num_exact] = _normalize(following[0], unit=255.0)
        self._steps = steps

    def run(self, images: torch.Tensor, draws: Draws, out: torch.Tensor) -> None:
        """Carry out the batch stage; see Engine.run."""
        for row, image in enumerate(images.numpy()):
            result = self._run(image, draws.params, row)
            write(torch.from_numpy(result).permute(2, 0, 1)[None], out[row : row + 1])

    def _run(self, image: Image, params: tuple[Params, ...], row: int) -> Image:
        for place, (step, drawn) in enumerate(zip(self._steps, params, strict=True)):
            if place == self._num_exact and self._divide:
                image = image.astype(np.float32) / np.float32(255)
            if drawn["apply"][row]:
                image = step(image, drawn, row)
        return image


@singledispatch
def prepare(operation: Operation) -> Step:
    """Return the function that carries out ``operation`` on one image.

    The function does not write to the image it is given.
    """
    raise EngineError(
        f"engine 'albumentations' cannot carry out {type(operation).__name__}: use engine 'kornia'"
    )


@prepare.register
def _flip_left_right(_: HorizontalFlip) -> Step:
    return _transform(A.HorizontalFlip())


@prepare.register
def _flip_up_down(_: VerticalFlip) -> Step:
    return _transform(A.VerticalFlip())


@prepare.register
def _normalize(operation: Normalize, *, unit: float = 1.0) -> Step:
    return _transform(A.Normalize(operation.mean, operation.std, max_pixel_value=unit))


@prepare.register
def _grayscale(_: Grayscale) -> Step:
    return _transform(A.ToGray())


@prepare.register
def _jitter(_: ColorJitter) -> Step:
    return _transform(A.ColorJitter(), *FACTORS, "order")


@prepare.register
def _blur(operation: GaussianBlur) -> Step:
    transform = A.GaussianBlur()
    offsets = np.arange(operation.kernel_size) - operation.kernel_size // 2

    def blur(image: Image, params: Params, row: int) -> Image:
        weights = np.exp(-0.5 * (offsets / params["sigma"][row]) ** 2)
        return _inject(transform, image, kernel=weights / weights.sum())

    return blur


@prepare.register
def _affine(operation: RandomAffine) -> Step:
    if int(cv2.__version__.split(".")[0]) < 5:
        raise EngineError(
            "engine 'albumentations' cannot carry out RandomAffine exactly with OpenCV "
            f"{cv2.__version__}, which warps on a grid of 1/32 pixel: install OpenCV 5 or newer, "
            "or use engine 'kornia'"
        )
    transform = A.Affine(fill=operation.fill)

    def warp(image: Image, params: Params, row: int) -> Image:
        return _inject(transform, image, matrix=params["matrix"][row], output_shape=image.shape[:2])

    return warp


@prepare.register
def _erase(operation: RandomErasing) -> Step:
    transform = A.Erasing(fill=operation.value)

    def erase(image: Image, params: Params, row: int) -> Image:
        (top, left), (height, width) = params["start"][row], params["shape"][row]
        hole = np.array([[left, top, left + width, top + height]])
        return _inject(transform, image, holes=hole, seed=0)

    return erase


@prepare.register
def _crop(operation: CenterCrop) -> Step:
    target = cast("tuple[int, int]", operation.size)
    transform = A.CenterCrop(*target, pad_if_needed=True)

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
        return _inject(
            transform,
            image,
            pad_params=padding,
            crop_coords=(left, top, left + width, top + height),
        )

    return crop


@prepare.register(Resize)
@prepare.register(RandomResizedCrop)
def _resample(operation: Resize | RandomResizedCrop) -> Step:
    if operation.antialias:
        raise EngineError(
            f"engine 'albumentations' cannot carry out {type(operation).__name__} with "
            "antialias=True after the decode stage: use engine 'kornia' or antialias=False"
        )

    def resample(image: Image, params: Params, row: int) -> Image:
        (top, left), (height, width) = params["start"][row], params["shape"][row]
        transform = A.RandomResizedCrop(params["resize"][row].tolist())
        return _inject(transform, image, crop_coords=(left, top, left + width, top + height))

    return resample


def _transform(transform: Any, *names: str) -> Step:
    """Call a transform with the named parameters as they were drawn."""

    def apply(image: Image, params: Params, row: int) -> Image:
        return _inject(transform, image, **{name: params[name][row] for name in names})

    return apply


def _inject(transform: Any, image: Image, **params: Any) -> Image:
    result: Image = transform.apply_with_params(params, image=image)["image"]
    return result
