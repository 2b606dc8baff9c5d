"""Code shared by the functions of the Kornia engine.

Modules are called through ``apply_transform(images, params, flags, transform)``, which reads
nothing but its arguments. Their ``forward`` would store the last parameters on the module, so
that threads could not share it, and would compute the rows whose gate is off as well.

On CUDA nothing here waits for the device: the host decides which rows are computed, and row
numbers go up from pinned memory. Kornia moves its parameters from the host without waiting.
"""

from collections.abc import Callable
from functools import partial, singledispatch
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpu_aug.draws import Params
from gpu_aug.engines.layout import to_unit_
from gpu_aug.engines.threes import by_threes
from gpu_aug.errors import EngineError
from gpu_aug.ops import OnTargets, Operation
from gpu_aug.upload import upload

Step = Callable[[Tensor, Params], Tensor]
"""Planar images [n, C, H, W] and their parameters in, new planar images out; C is 3, or any where operations treat
all channels alike.

Images are float32, or uint8 where only operations that move pixels came before. A step gets the
rows whose gate is open; one that mixes images gets all rows, and ``partners`` in its parameters.
"""


@singledispatch
def prepare(operation: Operation, device: torch.device) -> Step:  # noqa: ARG001 - for registered
    """Return the function that carries out ``operation`` on the rows it applies to.

    The function may write to the images it is given.
    """
    raise EngineError(
        f"engine 'kornia' cannot carry out {type(operation).__name__}: "
        "take it out of the recipe or register a function with gpu_aug.engines.kornia.step.prepare"
    )


F = TypeVar("F", bound=Callable[..., Any])


def carries_out(function: F) -> F:
    """Register ``function(operation, x, params)`` as the step of the operations that its first parameter names."""
    kind = next(iter(function.__annotations__.values()))
    prepare.register(kind, lambda operation, _device: partial(function, operation))
    return function


@carries_out
def _keep(_: OnTargets, x: Tensor, _params: Params) -> Tensor:
    """Boxes, keypoints and masks are changed outside of the engines."""
    return x


def module(call: Any, **fixed: Tensor) -> Step:
    """Call a Kornia module with the drawn parameters as they are, kept on the host."""

    def apply(x: Tensor, params: Params) -> Tensor:
        tensors = {name: host(values) for name, values in params.items()} | fixed
        images: Tensor = call.apply_transform(x, tensors, call.flags)
        return images

    return apply


def on_rows(step: Step, x: Tensor, params: Params) -> Tensor:
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


def host(values: NDArray[Any]) -> Tensor:
    """Return float32 parameters on the host."""
    return torch.from_numpy(np.ascontiguousarray(values, np.float32))


def host_step(
    function: Callable[[NDArray[Any], Params, int], NDArray[Any]],
    dtype: Literal["uint8", "float32"],
) -> Step:
    """Make a step of a function on one image that exists on the CPU only.

    On CUDA the images go to the host and back, which waits for the device and is slow.

    Args:
        function: An image [H, W, 3] of ``dtype``, the parameters and the image's row in, a new
            image out: a Step of the Albumentations engine. It does not write to its image. Images
            must all come out with one size, uint8 or float32.
        dtype: "uint8" rounds 255 times the value to 8 bits, and divides what comes back by 255.
            Images that are uint8 already stay uint8.
    """

    def apply(x: Tensor, params: Params) -> Tensor:
        device, is_uint8 = x.device, x.dtype == torch.uint8
        if dtype == "uint8" and x.dtype != torch.uint8:
            x = x.mul(255).round_().clamp_(0, 255).to(torch.uint8)
        elif dtype == "float32" and x.dtype == torch.uint8:
            x = to_unit_(x.float())
        images = x.permute(0, 2, 3, 1).contiguous().cpu().numpy()
        changed = np.stack(
            [by_threes(function)(image, params, row) for row, image in enumerate(images)]
        )
        result = torch.from_numpy(changed).to(device).permute(0, 3, 1, 2).contiguous()
        return to_unit_(result.float()) if result.dtype == torch.uint8 and not is_uint8 else result

    return apply
