"""Lookup tables, color matrices and brightness maps, on the CPU."""

from typing import Any

import albumentations as A
import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from gpu_aug.draw_operations import row_of
from gpu_aug.draws import Params
from gpu_aug.engines.albumentations.step import Image, Step, carries_out, inject, prepare
from gpu_aug.ops.color.lookup_tables import EqualizeLuma, HistogramTable, Table
from gpu_aug.ops.color.matrices import ColorMatrix, Statistics
from gpu_aug.ops.color.shading import PlasmaBrightnessContrast, Shading
from gpu_aug.ops.color.stains import HEStain
from gpu_aug.ops.noise.plasma import plasma

_CPU = torch.device("cpu")
_PLASMA = A.PlasmaBrightnessContrast()


@carries_out
def _table(operation: Table, image: Image, params: Params, row: int) -> Image:
    return look_up(image, whole(image), operation.tables(row_of(params, row))[0])


@carries_out
def _histogram_table(operation: HistogramTable, image: Image, _params: Params, _row: int) -> Image:
    levels = whole(image)
    num = [np.bincount(levels[..., channel].ravel(), minlength=256) for channel in range(3)]
    tables = operation.tables(torch.from_numpy(np.stack(num)[None]))
    return look_up(image, levels, tables[0].numpy())


@prepare.register
def _equalize_luma(operation: EqualizeLuma) -> Step:
    if operation.method == "pil":
        from gpu_aug.engines.opencv import equalize_luma

        return lambda image, _params, _row: as_float(equalize_luma(whole(image), operation))
    call = A.Equalize(mode="cv" if operation.method == "opencv" else "pil", by_channels=False)
    return lambda image, _params, _row: inject(call, image, mask=None)


def as_float(image: NDArray[np.uint8]) -> Image:
    """Return 8-bit values as float32 in [0, 1]."""
    return image.astype(np.float32) / np.float32(255)


def whole(image: Image) -> NDArray[np.uint8]:
    """Return the image in 8 bits."""
    if image.dtype == np.uint8:
        return image
    return np.clip(np.rint(image * np.float32(255)), 0, 255).astype(np.uint8)


def look_up(image: Image, levels: NDArray[np.uint8], tables: NDArray[np.uint8]) -> Image:
    """Look up the 8-bit image in tables, uint8 [3, 256]; of the type of ``image``."""
    found: Image = cv2.LUT(levels, np.ascontiguousarray(tables.T).reshape(1, 256, 3))
    return found if image.dtype == np.uint8 else as_float(found)


@carries_out
def _matrix(operation: ColorMatrix, image: Image, params: Params, row: int) -> Image:
    if operation.reads_image:
        drawn = as_tensors(row_of(params, row), torch.float64)
        matrix = operation.image_matrices(drawn, statistics(image))[0].numpy()
    else:
        matrix = params["matrix"][row]
    mixed: Image = np.clip(cv2.transform(image, matrix), *operation.limits)
    return mixed


def statistics(image: Image) -> Statistics:
    """Return the statistics of one float32 image."""
    values = image.reshape(-1, 3).astype(np.float64)
    products = np.cov(values, rowvar=False, bias=True)
    mean, covariance, low, high = (
        torch.from_numpy(number)[None]
        for number in (values.mean(axis=0), products, values.min(axis=0), values.max(axis=0))
    )
    return Statistics(mean, covariance, low, high, len(values))


@carries_out
def _shading(operation: Shading, image: Image, params: Params, row: int) -> Image:
    size = (image.shape[0], image.shape[1])
    gain = operation.gain(row_of(params, row), size, _CPU)[0, 0].numpy()
    shaded: Image = np.clip(image * gain[..., None], 0, 1)
    return shaded


@carries_out
def _plasma(operation: PlasmaBrightnessContrast, image: Image, params: Params, row: int) -> Image:
    size = (image.shape[0], image.shape[1])
    clouds = plasma(params["key"][row : row + 1], size, operation.roughness, _CPU)
    return inject(
        _PLASMA,
        image,
        brightness_factor=float(params["brightness"][row]),
        contrast_factor=float(params["contrast"][row]),
        plasma_pattern=clouds[0, 0].numpy(),
    )


@prepare.register
def _stain(operation: HEStain) -> Step:
    call = A.HEStain(augment_background=operation.augment_background)

    def stain(image: Image, params: Params, row: int) -> Image:
        return inject(
            call,
            image,
            stain_matrix=params["stains"][row],
            scale_factors=params["scale"][row],
            shift_values=params["shift"][row],
        )

    return stain


def as_tensors(params: Params, dtype: torch.dtype) -> dict[str, Any]:
    """Return parameters as tensors, floating ones with ``dtype``."""
    tensors = {
        name: torch.from_numpy(np.ascontiguousarray(values)) for name, values in params.items()
    }
    return {
        name: values.to(dtype) if values.is_floating_point() else values
        for name, values in tensors.items()
    }
