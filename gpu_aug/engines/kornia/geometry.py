"""Operations that move pixels, in Kornia."""

import kornia.augmentation as K
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from gpu_aug.draws import Params
from gpu_aug.engines.kornia.step import Step, on_rows, prepare, upload
from gpu_aug.ops.spatial import Crop, Reorient, Resample, Warp


@prepare.register
def _reorient(_: Reorient, _device: torch.device) -> Step:
    steps: dict[str, Step] = {
        "transpose": lambda x, _: x.transpose(2, 3),
        "top_bottom": lambda x, _: x.flip(2),
        "left_right": lambda x, _: x.flip(3),
    }

    def reorient(x: Tensor, params: Params) -> Tensor:
        for name, step in steps.items():
            x = on_rows(step, x, {"apply": params[name]})
        return x

    return reorient


@prepare.register
def _warp(operation: Warp, device: torch.device) -> Step:
    padding = {"padding_mode": "fill", "fill_value": torch.tensor([operation.fill], device=device)}
    module = K.RandomAffine(0.0, p=1.0, **(padding if operation.fill else {}))

    def warp(x: Tensor, params: Params) -> Tensor:
        matrix = upload(params["matrix"].astype(np.float32), x.device)
        warped: Tensor = module.apply_transform(x, {}, module.flags, matrix)
        return warped

    return warp


@prepare.register
def _crop(_: Crop, _device: torch.device) -> Step:
    def crop(x: Tensor, params: Params) -> Tensor:
        # All images have one size here, so all rows have the same crop.
        (top, left), (height, width) = params["start"][0].tolist(), params["shape"][0].tolist()
        below, beside = height - x.shape[2] + top, width - x.shape[3] + left
        return F.pad(x, (-left, beside, -top, below))  # a negative pad is a cut

    return crop


@prepare.register
def _resample(operation: Resample, _device: torch.device) -> Step:
    # Torch's antialiasing is torchvision's; Kornia's is a Gaussian of its own.
    def resample(x: Tensor, params: Params) -> Tensor:
        resized = []
        for row, (start, shape) in enumerate(zip(params["start"], params["shape"], strict=True)):
            (top, left), (height, width) = start.tolist(), shape.tolist()
            cut = x[row : row + 1, :, top : top + height, left : left + width]
            size = params["resize"][row].tolist()
            resized.append(F.interpolate(cut, size, mode="bilinear", antialias=operation.antialias))
        return torch.cat(resized)

    return resample
