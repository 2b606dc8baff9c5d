"""Operations that change colors: in torch and Kornia on batches; in NumPy, OpenCV and Albumentations on one image."""

from collections.abc import Iterator

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from gpu_aug.draws import Params
from gpu_aug.engines.backends.step import (
    Image,
    NumpyStep,
    TorchStep,
    albumentations_transform,
    as_float,
    host_step_torch,
    inject,
    module,
    numpy_step,
    on_rows,
    prepare_numpy,
    prepare_torch,
    torch_step,
    transform,
)
from gpu_aug.engines.layout import to_levels, to_unit_
from gpu_aug.ops import (
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
from gpu_aug.upload import upload

_ONE_STEP = float(np.float32(1 / 255))  # OpenCV multiplies by the rounded reciprocal
_SMOOTH = np.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]], np.float32) / 13  # Pillow's SMOOTH


@prepare_torch.register
def normalize_torch(operation: Normalize, device: torch.device, *, unit: float = 1.0) -> TorchStep:
    """Return the step that normalizes batches of images with values in [0, unit]."""
    import kornia.augmentation as K

    mean, std = (
        (torch.tensor(values, dtype=torch.float64) * unit).float().to(device)
        for values in (operation.mean, operation.std)
    )
    of_each = module(K.Normalize(mean, std))
    of_all = module(K.Normalize(mean[:1], std[:1]))
    return lambda x, params: (of_each if x.shape[1] == len(mean) else of_all)(x, params)


@prepare_numpy.register
def normalize_numpy(operation: Normalize, *, unit: float = 1.0) -> NumpyStep:
    """Return the step that normalizes one image with values in [0, unit]."""
    import albumentations as A

    return transform(A.Normalize(operation.mean, operation.std, max_pixel_value=unit))


@prepare_torch.register
def _grayscale_torch(operation: Grayscale, _device: torch.device) -> TorchStep:
    import kornia.augmentation as K

    if operation.method == "weighted_average":
        return module(K.RandomGrayscale(p=1.0))
    if operation.method == "from_lab":
        from gpu_aug.engines.opencv import lightness

        return host_step_torch(lambda image, _params, _row: lightness(image), "uint8")

    def gray(x: Tensor, _: Params) -> Tensor:
        if operation.method == "average":
            one = x.mean(dim=1, keepdim=True)
        else:
            one = x.amax(dim=1, keepdim=True)
            if operation.method == "desaturation":
                one = (one + x.amin(dim=1, keepdim=True)) / 2
        return one.expand(-1, 3, -1, -1)

    return gray


@numpy_step
def _grayscale_numpy(operation: Grayscale, image: Image, _params: Params, _row: int) -> Image:
    from albumentations.augmentations.pixel import functional as pixel

    # The class ToGray loses an axis of images that are one pixel wide or high.
    return np.repeat(pixel.to_gray(image, 1, operation.method)[..., None], 3, axis=2)


@prepare_torch.register
def _jitter_torch(_: ColorJitter, device: torch.device) -> TorchStep:
    import kornia.augmentation as K

    kornia = K.ColorJitter(p=1.0)

    def jitter(x: Tensor, params: Params) -> Tensor:
        factors = {f"{name}_factor": params[name] for name in FACTORS}
        for rows, order in _order_groups(params["order"], by_stage=device.type != "cpu"):
            ordered = module(kornia, order=torch.from_numpy(order))
            x = on_rows(ordered, x, {"apply": rows, **factors})
        return x

    return jitter


@prepare_numpy.register
def _jitter_numpy(_: ColorJitter) -> NumpyStep:
    return transform(albumentations_transform("ColorJitter"), *FACTORS, "order")


def _order_groups(
    orders: NDArray[np.int64], *, by_stage: bool
) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.int64]]]:
    """Yield pairs (rows, functions): run these functions of a ColorJitter, in this order, on these images.

    One call of Kornia has one order for all its images. With ``by_stage`` there are 16 calls of one function each,
    whatever the batch size; without it there is one call of all functions per image, which is a quarter faster on a CPU.
    """
    if not by_stage:
        for row, order in enumerate(orders):
            yield np.arange(len(orders)) == row, order
        return
    for stage in orders.T:
        for function in range(orders.shape[1]):
            yield stage == function, np.array([function])


@prepare_torch.register
def _jitter_step_torch(operation: JitterStep, _device: torch.device) -> TorchStep:
    import kornia.augmentation as K

    step = module(K.ColorJitter(p=1.0), order=torch.tensor([FACTORS.index(operation.step)]))
    return lambda x, params: step(x, {f"{name}_factor": params["factor"] for name in FACTORS})


@prepare_numpy.register
def _jitter_step_numpy(operation: JitterStep) -> NumpyStep:
    from albumentations.augmentations.pixel import functional as pixel

    functions = {
        "brightness": pixel.adjust_brightness_torchvision,
        "contrast": pixel.adjust_contrast_torchvision,
        "saturation": pixel.adjust_saturation_torchvision,
        "hue": pixel.adjust_hue_torchvision,
    }
    function = functions[operation.step]
    return lambda image, params, row: function(image, params["factor"][row])


@prepare_torch.register
def _gamma_torch(_: Gamma, _device: torch.device) -> TorchStep:
    return lambda x, params: x.clamp_min(0).pow(per_image(params["gamma"], x.device))


@numpy_step
def _gamma_numpy(_: Gamma, image: Image, params: Params, row: int) -> Image:
    return np.asarray(np.power(np.maximum(image, 0), np.float32(params["gamma"][row])))


@prepare_torch.register
def _invert_torch(_: Invert, _device: torch.device) -> TorchStep:
    return lambda x, _: _inverse(x)


@prepare_numpy.register
def _invert_numpy(_: Invert) -> NumpyStep:
    return transform(albumentations_transform("InvertImg"))


@torch_step
def _solarize_torch(_: Solarize, x: Tensor, params: Params) -> Tensor:
    threshold = per_image(params["threshold"], x.device)
    value = x if x.dtype == torch.float32 else to_unit_(x.float())
    return torch.where(value >= threshold, _inverse(x), x)


@numpy_step
def _solarize_numpy(_: Solarize, image: Image, params: Params, row: int) -> Image:
    is_uint8 = image.dtype == np.uint8
    value = as_float(image) if is_uint8 else image
    inverse = image.dtype.type(255 if is_uint8 else 1) - image
    return np.where(value >= np.float32(params["threshold"][row]), inverse, image)


def _inverse(x: Tensor) -> Tensor:
    return 255 - x if x.dtype == torch.uint8 else 1 - x


@torch_step
def _sharpness_torch(_: Sharpness, x: Tensor, params: Params) -> Tensor:
    # By pooling: a convolution on a GPU would round to 10 bits.
    if min(x.shape[2:]) <= 2:
        return x
    smooth = x.clone()
    middle = smooth[:, :, 1:-1, 1:-1]
    middle.copy_((F.avg_pool2d(x, 3, stride=1) * 9 + middle * 4) / 13)
    return smooth.lerp_(x, per_image(params["factor"], x.device)).clamp_(0, 1)


@numpy_step
def _sharpness_numpy(_: Sharpness, image: Image, params: Params, row: int) -> Image:
    if min(image.shape[:2]) <= 2:
        return image
    smooth = image.copy()
    smooth[1:-1, 1:-1] = cv2.filter2D(image, -1, _SMOOTH)[1:-1, 1:-1]
    factor = float(params["factor"][row])
    blended: Image = np.clip(cv2.addWeighted(image, factor, smooth, 1 - factor, 0), 0, 1)
    return blended


@torch_step
def _to_dtype_torch(operation: ToDtype, x: Tensor, _params: Params) -> Tensor:
    if x.dtype == torch.uint8 or operation.dtype != "uint8":
        return x
    if operation.floor is None:
        return to_unit_(to_levels(x))
    factor, summand = operation.floor
    return to_unit_(x.mul(factor).mul_(255).add_(summand).floor_().clamp_(0, 255))


@numpy_step
def _to_dtype_numpy(operation: ToDtype, image: Image, _params: Params, _row: int) -> Image:
    if image.dtype == np.uint8 or operation.dtype != "uint8":
        return image
    if operation.floor is None:
        levels = np.rint(image * 255)
    else:
        factor, summand = map(np.float32, operation.floor)
        levels = np.floor(image * factor * np.float32(255) + summand)
    rounded: Image = (np.clip(levels, 0, 255) / 255).astype(np.float32)
    return rounded


@torch_step
def _shift_hsv_torch(_: HueSaturationValue, x: Tensor, params: Params) -> Tensor:
    whole = x if x.dtype == torch.uint8 else to_levels(x)
    hue, saturation, value = to_hsv(whole.to(torch.int32))
    tables = upload(hsv_tables(params), x.device).flatten(1)
    moved = [
        tables.gather(1, (channel + 256 * number).flatten(1).long()).view_as(channel)
        for number, channel in enumerate((hue, saturation, value))
    ]
    levels = from_hsv(*moved)
    return levels.to(torch.uint8) if x.dtype == torch.uint8 else to_unit_(levels)


@prepare_numpy.register
def _shift_hsv_numpy(_: HueSaturationValue) -> NumpyStep:
    call = albumentations_transform("HueSaturationValue")
    names = ("hue_shift", "sat_shift", "val_shift")

    def shift(image: Image, params: Params, row: int) -> Image:
        return inject(call, image, **{name: float(params[name][row]) for name in names})

    return shift


def hsv_tables(params: Params) -> NDArray[np.int32]:
    """Return lookup tables for 8-bit hue, saturation and value, int32 [n, 3, 256].

    Saturation 0 stays 0, so that gray pixels stay gray.
    """
    levels = np.arange(256)
    hue, saturation, value = (
        params[name][:, None] for name in ("hue_shift", "sat_shift", "val_shift")
    )
    tables = np.stack(
        [
            np.mod(levels + hue, 180).astype(np.int32),
            np.clip(levels + np.trunc(saturation), 0, 255) * (levels > 0),
            np.clip(levels + np.trunc(value), 0, 255),
        ],
        axis=1,
    )
    return tables.astype(np.int32)


def to_hsv(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Convert RGB images, int32 [n, 3, H, W] in [0, 255], to HSV.

    Source: OpenCV's RGB2HSV for 8-bit images, with its fixed-point arithmetic.

    Returns:
        Hue in [0, 180), saturation and value in [0, 255], each int32 [n, H, W].
    """
    red, green, blue = x.unbind(1)
    value = x.amax(dim=1)
    spread = value - x.amin(dim=1)
    saturation = (spread * _rounded_quotient(255 << 12, value) + 2048) >> 12
    around = torch.where(
        value == red,
        green - blue,
        torch.where(value == green, blue - red + 2 * spread, red - green + 4 * spread),
    )
    hue = (around * _rounded_quotient((180 << 12) / 6, spread) + 2048) >> 12
    return torch.where(hue < 0, hue + 180, hue), saturation, value


def _rounded_quotient(number: float, divisor: Tensor) -> Tensor:
    divisor = divisor.clamp(min=1).double()
    return (torch.full_like(divisor, number) / divisor).round_().to(torch.int32)


def from_hsv(hue: Tensor, saturation: Tensor, value: Tensor) -> Tensor:
    """Convert HSV, in the ranges of ``to_hsv``, to RGB: float32 [n, 3, H, W] that holds integers from 0 to 255.

    Source: OpenCV's HSV2RGB for 8-bit images, whose vector code rounds down.
    """
    h = hue.float() * float(np.float32(6 / 180))
    s, v = saturation.float() * _ONE_STEP, value.float() * _ONE_STEP
    sector = h.floor()
    part, sector = h - sector, sector.to(torch.int32) % 6
    low, falling, rising = v * (1 - s), v * (1 - s * part), v * (1 - s * (1 - part))
    shades = {
        0: (v, rising, low),
        1: (falling, v, low),
        2: (low, v, rising),
        3: (low, falling, v),
        4: (rising, low, v),
        5: (v, low, falling),
    }
    x = torch.stack(shades[5], dim=1)
    for number in range(5):
        x = torch.where((sector == number)[:, None], torch.stack(shades[number], dim=1), x)
    return x.mul_(255).floor_().clamp_(0, 255)


def per_image(values: NDArray[np.float64], device: torch.device) -> Tensor:
    """Return one value per image as float32 [n, 1, 1, 1] on the device, for broadcasting."""
    return upload(values.astype(np.float32), device).view(-1, 1, 1, 1)
