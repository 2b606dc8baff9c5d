"""The Kornia engine: Kornia's own modules, on any device, with our parameters.

Modules are called through ``apply_transform(images, params, flags, transform)``, which reads
nothing but its arguments. Their ``forward`` would store the last parameters on the module, so
that threads could not share it, and would compute the rows whose gate is off as well.

On CUDA nothing here waits for the device: the host decides which rows are computed, and row
numbers go up from pinned memory. Kornia moves its parameters from the host without waiting.
"""

from collections.abc import Callable, Iterator
from functools import singledispatch
from typing import Any

import kornia.augmentation as K
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from gpu_aug.draws import Draws, Params
from gpu_aug.engines.engine import num_exact
from gpu_aug.engines.layout import to_planar, write
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

Step = Callable[[Tensor, Params], Tensor]
"""Planar images [n, 3, H, W] and their parameters in, new planar images out."""

_CPU_CHUNK = 4
"""Images at a time on a CPU: they stay in the cache, and their memory is reused, not mapped
anew; measured in DECISIONS.md."""


class KorniaEngine:
    """The batch stage of a recipe in Kornia; see Engine for the contract."""

    name = "kornia"

    def __init__(self, recipe: Recipe, *, device: torch.device) -> None:
        operations = recipe.batch_operations
        exact = num_exact(operations)
        steps = [prepare(operation, device) for operation in operations]
        # Straight from uint8 to Normalize: one pass over the images less.
        self._divide = True
        if exact < len(operations) and isinstance(first := operations[exact], Normalize):
            self._divide = False
            steps[exact] = _normalize(first, device, unit=255.0)
        self._exact, self._rest = steps[:exact], steps[exact:]
        self._device_type = device.type

    def run(self, images: Tensor, draws: Draws, out: Tensor) -> None:
        """Carry out the batch stage; see Engine.run."""
        num = len(images)
        at_once = _CPU_CHUNK if self._device_type == "cpu" else max(num, 1)
        # The caller's autocast would blur and warp in half precision.
        with torch.no_grad(), torch.autocast(self._device_type, enabled=False):
            for start in range(0, num, at_once):
                stop = min(start + at_once, num)
                self._run(images[start:stop], draws.rows(start, stop).params, out[start:stop])

    def _run(self, images: Tensor, params: tuple[Params, ...], out: Tensor) -> None:
        x = to_planar(images)
        num_exact = len(self._exact)
        for step, drawn in zip(self._exact, params[:num_exact], strict=True):
            x = _on_rows(step, x, drawn)
        if self._rest:
            x = x.float().div_(255) if self._divide else x.float()
        for step, drawn in zip(self._rest, params[num_exact:], strict=True):
            x = _on_rows(step, x, drawn)
        write(x, out)


@singledispatch
def prepare(operation: Operation, device: torch.device) -> Step:  # noqa: ARG001 - for registered
    """Return the function that carries out ``operation`` on the rows it applies to.

    The function may write to the images it is given.
    """
    raise EngineError(
        f"engine 'kornia' cannot carry out {type(operation).__name__}: "
        "take it out of the recipe or register a function with gpu_aug.engines.kornia.prepare"
    )


@prepare.register
def _flip_left_right(_: HorizontalFlip, _device: torch.device) -> Step:
    return _module(K.RandomHorizontalFlip(p=1.0))


@prepare.register
def _flip_up_down(_: VerticalFlip, _device: torch.device) -> Step:
    return _module(K.RandomVerticalFlip(p=1.0))


@prepare.register
def _normalize(operation: Normalize, device: torch.device, *, unit: float = 1.0) -> Step:
    mean, std = (
        (torch.tensor(values, dtype=torch.float64) * unit).float().to(device)
        for values in (operation.mean, operation.std)
    )
    return _module(K.Normalize(mean, std))


@prepare.register
def _grayscale(_: Grayscale, _device: torch.device) -> Step:
    return _module(K.RandomGrayscale(p=1.0))


@prepare.register
def _jitter(_: ColorJitter, device: torch.device) -> Step:
    module = K.ColorJitter(p=1.0)

    def jitter(x: Tensor, params: Params) -> Tensor:
        factors = {f"{name}_factor": params[name] for name in FACTORS}
        for rows, order in _order_groups(params["order"], by_stage=device.type != "cpu"):
            ordered = _module(module, order=torch.from_numpy(order))
            x = _on_rows(ordered, x, {"apply": rows, **factors})
        return x

    return jitter


def _order_groups(
    orders: NDArray[np.int64], *, by_stage: bool
) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.int64]]]:
    """Yield (rows, functions to run on them in this order), which together carry out ``orders``.

    Kornia has one order per call. By stage takes 16 calls of one function whatever the batch;
    else each image gets one call of all its functions, a quarter faster on a CPU.
    """
    if not by_stage:
        for row, order in enumerate(orders):
            yield np.arange(len(orders)) == row, order
        return
    for stage in orders.T:
        for function in range(orders.shape[1]):
            yield stage == function, np.array([function])


@prepare.register
def _blur(operation: GaussianBlur, _device: torch.device) -> Step:
    width = operation.kernel_size
    return _module(K.RandomGaussianBlur((width, width), operation.sigma, p=1.0))


@prepare.register
def _affine(operation: RandomAffine, device: torch.device) -> Step:
    padding = {"padding_mode": "fill", "fill_value": torch.tensor([operation.fill], device=device)}
    module = K.RandomAffine(0.0, p=1.0, **(padding if operation.fill else {}))

    def warp(x: Tensor, params: Params) -> Tensor:
        matrix = upload(params["matrix"].astype(np.float32), x.device)
        warped: Tensor = module.apply_transform(x, {}, module.flags, matrix)
        return warped

    return warp


@prepare.register
def _erase(operation: RandomErasing, _device: torch.device) -> Step:
    module = K.RandomErasing(p=1.0)

    def erase(x: Tensor, params: Params) -> Tensor:
        corner, shape = _host(params["start"]), _host(params["shape"])
        rectangles = {
            "xs": corner[:, 1],
            "ys": corner[:, 0],
            "widths": shape[:, 1],
            "heights": shape[:, 0],
            "values": torch.full((len(x),), operation.value),
        }
        erased: Tensor = module.apply_transform(x, rectangles, module.flags)
        return erased

    return erase


@prepare.register
def _crop(_: CenterCrop, _device: torch.device) -> Step:
    def crop(x: Tensor, params: Params) -> Tensor:
        # All images have one size here, so all rows have the same crop.
        (top, left), (height, width) = params["start"][0].tolist(), params["shape"][0].tolist()
        below, beside = height - x.shape[2] + top, width - x.shape[3] + left
        return F.pad(x, (-left, beside, -top, below))  # a negative pad is a cut

    return crop


@prepare.register(Resize)
@prepare.register(RandomResizedCrop)
def _resample(operation: Resize | RandomResizedCrop, _device: torch.device) -> Step:
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


def _module(module: Any, **fixed: Tensor) -> Step:
    """Call a Kornia module with the drawn parameters as they are, kept on the host."""

    def apply(x: Tensor, params: Params) -> Tensor:
        tensors = {name: _host(values) for name, values in params.items()} | fixed
        images: Tensor = module.apply_transform(x, tensors, module.flags)
        return images

    return apply


def _on_rows(step: Step, x: Tensor, params: Params) -> Tensor:
    """Run ``step`` on the images whose gate is open; the others stay bit-identical."""
    applied = params["apply"]
    if applied.all():
        return step(x, params)
    rows = np.flatnonzero(applied)
    if len(rows) == 0:
        return x
    index = upload(rows, x.device)
    chosen = {name: values[rows] for name, values in params.items()}
    changed = step(x.index_select(0, index), chosen)
    if x.device.type != "cpu":
        return x.index_copy_(0, index, changed)
    for row, image in zip(rows, changed, strict=True):  # index_copy_ costs 15 times as much here
        x[row].copy_(image)
    return x


def _host(values: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, np.float32))


def upload(values: NDArray[Any], device: torch.device) -> Tensor:
    """Copy a host array to ``device`` without waiting for what is queued there."""
    tensor = torch.from_numpy(np.ascontiguousarray(values))
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
