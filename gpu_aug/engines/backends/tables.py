"""Operations by lookup tables, color matrices and brightness maps."""

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpu_aug.draw_operations import row_of
from gpu_aug.draws import Params
from gpu_aug.engines.backends.noise import combined
from gpu_aug.engines.backends.step import (
    Image,
    NumpyStep,
    TorchStep,
    as_bytes,
    as_float,
    host_step_torch,
    inject,
    numpy_step,
    prepare_numpy,
    prepare_torch,
    torch_step,
)
from gpu_aug.engines.layout import to_levels, to_unit_
from gpu_aug.ops.color.lookup_tables import HistogramTable, Table
from gpu_aug.ops.color.matrices import ColorMatrix, Statistics
from gpu_aug.ops.imported.color import TISSUE_BELOW, HEStain
from gpu_aug.ops.imported.shading import PlasmaBrightnessContrast, Shading, per_image, plasma
from gpu_aug.ops.imported.tones import EqualizeLuma
from gpu_aug.upload import upload

_ONE = 2.0**32  # sums are of multiples of 1 / _ONE; see `statistics_torch`
_CPU = torch.device("cpu")  # of images that are NumPy arrays


@prepare_torch.register
def _table_torch(operation: Table, _device: torch.device) -> TorchStep:
    return lambda x, params: look_up_torch(
        x, whole_torch(x), upload(operation.tables(params), x.device)
    )


@numpy_step
def _table_numpy(operation: Table, image: Image, params: Params, row: int) -> Image:
    return look_up_numpy(image, as_bytes(image), operation.tables(row_of(params, row))[0])


@torch_step
def _histogram_table_torch(operation: HistogramTable, x: Tensor, _params: Params) -> Tensor:
    levels = whole_torch(x)
    num = torch.zeros(len(x), 3, 256, dtype=torch.int64, device=x.device)
    num.scatter_add_(2, levels, torch.ones_like(levels[:1, :1, :1]).expand_as(levels))
    return look_up_torch(x, levels, operation.tables(num))


@numpy_step
def _histogram_table_numpy(
    operation: HistogramTable, image: Image, _params: Params, _row: int
) -> Image:
    levels = as_bytes(image)
    tables = operation.tables(torch.from_numpy(histogram(levels)[None]))
    return look_up_numpy(image, levels, tables[0].numpy())


def histogram(image: Image) -> NDArray[np.int64]:
    """Return how often each 8-bit value occurs in each channel of an image [H, W, 3], int64 [3, 256]."""
    levels, num = as_bytes(image), np.zeros((3, 256), np.int64)
    # OpenCV counts in a fifth of NumPy's time, but returns float32, which holds only so many counts exactly.
    part = max((1 << 24) // levels.shape[1], 1)
    for first in range(0, len(levels), part):
        for channel in range(3):
            rows = [levels[first : first + part]]
            counts = cv2.calcHist(rows, [channel], None, [256], [0, 256])
            num[channel] += counts.ravel().astype(np.int64)
    return num


@prepare_torch.register
def _equalize_luma_torch(operation: EqualizeLuma, _device: torch.device) -> TorchStep:
    from gpu_aug.engines.opencv import equalize_luma

    return host_step_torch(lambda image, _params, _row: equalize_luma(image, operation), "uint8")


@prepare_numpy.register
def _equalize_luma_numpy(operation: EqualizeLuma) -> NumpyStep:
    if operation.method == "pil":
        from gpu_aug.engines.opencv import equalize_luma

        return lambda image, _params, _row: as_float(equalize_luma(as_bytes(image), operation))
    import albumentations as A

    call = A.Equalize(mode="cv" if operation.method == "opencv" else "pil", by_channels=False)
    return lambda image, _params, _row: inject(call, image, mask=None)


def whole_torch(x: Tensor) -> Tensor:
    """Return images [n, 3, H, W] as 8-bit values, int64 [n, 3, H * W]."""
    if x.dtype != torch.uint8:
        x = to_levels(x)
    return x.flatten(2).long()


def look_up_torch(x: Tensor, levels: Tensor, tables: Tensor) -> Tensor:
    """Replace 8-bit values by their table entries.

    Args:
        x: The images [n, 3, H, W], which give shape and dtype of the result.
        levels: The values of these images as int64 [n, 3, H * W], in [0, 255].
        tables: The tables, uint8 [n, 3, 256].
    """
    found = tables.gather(2, levels).view(x.shape)
    return found if x.dtype == torch.uint8 else to_unit_(found.float())


def look_up_numpy(image: Image, levels: NDArray[np.uint8], tables: NDArray[np.uint8]) -> Image:
    """Replace the values of an 8-bit image by their table entries.

    Args:
        image: The image [H, W, 3], which gives the dtype of the result.
        levels: The image as uint8.
        tables: The tables, uint8 [3, 256].
    """
    found: Image = cv2.LUT(levels, np.ascontiguousarray(tables.T).reshape(1, 256, 3))
    return found if image.dtype == np.uint8 else as_float(found)


@torch_step
def _matrix_torch(operation: ColorMatrix, x: Tensor, params: Params) -> Tensor:
    if operation.reads_image:
        drawn = on_device(params, x.device, torch.float64)
        matrix = operation.image_matrices(drawn, statistics_torch(x)).float()
    else:
        matrix = upload(params["matrix"], x.device).float()
    # Channel by channel: a product of matrices on a GPU may round to 10 bits.
    matrix = matrix[..., None, None]
    result = matrix[:, :, 3].expand(-1, -1, *x.shape[2:])
    for channel in range(3):
        result = torch.addcmul(result, matrix[:, :, channel], x[:, channel : channel + 1])
    return result.clamp_(*operation.limits)


@numpy_step
def _matrix_numpy(operation: ColorMatrix, image: Image, params: Params, row: int) -> Image:
    if operation.reads_image:
        drawn = on_device(row_of(params, row), _CPU, torch.float64)
        matrix = operation.image_matrices(drawn, statistics_numpy(image))[0].numpy()
    else:
        matrix = params["matrix"][row]
    mixed: Image = np.clip(cv2.transform(image, matrix), *operation.limits)
    return mixed


def statistics_torch(x: Tensor) -> Statistics:
    """Return mean, covariance, minimum and maximum of float32 images [n, 3, H, W] in [0, 1].

    Integers are summed, so that the result does not depend on the order of summation, the batch or the device.
    """
    values = x.flatten(2).double()
    num = values.shape[2]
    mean = _total(values) / num
    centered = values - mean[:, :, None]
    products = [_total(centered * centered[:, c : c + 1]) for c in range(3)]
    covariance = torch.stack(products, dim=1) / num
    return Statistics(mean, covariance, values.amin(dim=2), values.amax(dim=2), num)


def statistics_numpy(image: Image) -> Statistics:
    """Return mean, covariance, minimum and maximum of one float32 image [H, W, 3]."""
    values = image.reshape(-1, 3).astype(np.float64)
    products = np.cov(values, rowvar=False, bias=True)
    mean, covariance, low, high = (
        torch.from_numpy(number)[None]
        for number in (values.mean(axis=0), products, values.min(axis=0), values.max(axis=0))
    )
    return Statistics(mean, covariance, low, high, len(values))


def _total(values: Tensor) -> Tensor:
    return (values * _ONE).round_().long().sum(dim=2).double() / _ONE


@torch_step
def _shading_torch(operation: Shading, x: Tensor, params: Params) -> Tensor:
    gain = operation.gain(params, (x.shape[2], x.shape[3]), x.device)
    return x.mul(gain).clamp_(0, 1)


@numpy_step
def _shading_numpy(operation: Shading, image: Image, params: Params, row: int) -> Image:
    return combined(np.multiply, image, operation.gain(row_of(params, row), image.shape[:2], _CPU))


@torch_step
def _plasma_torch(operation: PlasmaBrightnessContrast, x: Tensor, params: Params) -> Tensor:
    clouds = plasma(params["key"], (x.shape[2], x.shape[3]), operation.roughness, x.device)
    [brightness] = per_image(params["brightness"], x.device)
    [contrast] = per_image(params["contrast"], x.device)
    x = x.add(clouds * brightness.clamp(min=0)).clamp_(0, 1)
    factor = 1 + clouds * contrast.clamp(min=0)
    mean = _total(x.flatten(2).double()).mean(dim=1) / (x.shape[2] * x.shape[3])
    raised = (x * factor).clamp_(0, 1)
    return raised.add_(mean.float().view(-1, 1, 1, 1) * (1 - factor)).clamp_(0, 1)


@numpy_step
def _plasma_numpy(
    operation: PlasmaBrightnessContrast, image: Image, params: Params, row: int
) -> Image:
    clouds = plasma(params["key"][row : row + 1], image.shape[:2], operation.roughness, _CPU)
    brightness, contrast = float(params["brightness"][row]), float(params["contrast"][row])
    if brightness > 0:
        image = combined(np.add, image, clouds * brightness)
    if contrast > 0:
        factor, mean = clouds * contrast + 1, float(image.mean())
        image = combined(np.add, combined(np.multiply, image, factor), (1 - factor) * mean)
    return image


@torch_step
def _stain_torch(operation: HEStain, x: Tensor, params: Params) -> Tensor:
    stains = params["stains"]
    back = np.linalg.inv(stains @ stains.swapaxes(1, 2) + 1e-6 * np.eye(2)) @ stains
    density = -x.clamp(min=1e-6).log()
    amounts = []
    for number in range(2):
        weights = per_image(back[:, number], x.device)
        amount = sum(density[:, c : c + 1] * weights[c] for c in range(3))
        scale, shift = (
            per_image(params[name][:, number], x.device)[0] for name in ("scale", "shift")
        )
        amounts.append((amount, amount * scale + shift))
    luma = x[:, :1] * 0.299 + x[:, 1:2] * 0.587 + x[:, 2:] * 0.114
    changes = torch.ones_like(luma, dtype=torch.bool)
    if not operation.augment_background:
        changes = luma < TISSUE_BELOW
    kept = [torch.where(changes, after, before) for before, after in amounts]
    colors = [per_image(stains[:, number], x.device) for number in range(2)]
    channels = [kept[0] * colors[0][c] + kept[1] * colors[1][c] for c in range(3)]
    return torch.cat(channels, dim=1).neg_().exp_().clamp_(0, 1)


@prepare_numpy.register
def _stain_numpy(operation: HEStain) -> NumpyStep:
    import albumentations as A

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


def on_device(params: Params, device: torch.device, dtype: torch.dtype) -> dict[str, Tensor]:
    """Return drawn parameters as tensors on the device; floating-point ones get the dtype ``dtype``."""
    tensors = {name: upload(values, device) for name, values in params.items()}
    return {
        name: values.to(dtype) if values.is_floating_point() else values
        for name, values in tensors.items()
    }
