"""Registries of the steps of the Kornia and Albumentations engines, and functions that steps share.

A step is the function that carries out one operation. An engine calls it with the rows whose gate is open. Kornia's modules
are called through ``apply_transform(images, params, flags, transform)``, which reads nothing but its arguments. Their
``forward`` would store the last parameters on the module, so that threads could not share it, and would compute the rows
whose gate is closed as well. Albumentations' transforms are called through ``apply_with_params``, which draws nothing and
stores nothing either.

On CUDA nothing here waits for the device: the host decides which rows are computed, and row indices are uploaded from pinned
memory. Kornia moves its parameters from the host without waiting.
"""

import os
from collections.abc import Callable
from functools import cache, partial, singledispatch
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpu_aug.draws import Params
from gpu_aug.engines.channel_triplets import by_channel_triplets
from gpu_aug.engines.layout import to_levels, to_unit_
from gpu_aug.errors import EngineError
from gpu_aug.ops import OnTargets, Operation
from gpu_aug.upload import upload

os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")  # importing it would look on the network

TorchStep = Callable[[Tensor, Params], Tensor]
"""Planar images [n, C, H, W] and their parameters in, new planar images out; C is 3, or any where operations treat
all channels alike.

Images are float32, or uint8 where only operations that move pixels came before. A step gets the
rows whose gate is open; one that mixes images gets all rows, and ``partners`` in its parameters.
"""

Image = NDArray[Any]
"""[H, W, 3], float32, or uint8 where only operations that move pixels came before."""

NumpyStep = Callable[[Image, Params, int], Image]
"""One image [H, W, 3], the parameters of the batch and the image's row in, a new image out.

That of a Filter takes uint8 images, too, although it returns float32. Its fourth argument may be memory for the result, uint8 or
float32 [H, W, 3], contiguous within each row; this is what it returns then.
"""

BatchStep = Callable[[list[Image], Params], list[Image]]
"""All images and the parameters of the batch, ``partners`` among them, in; new images out: where images are mixed, or
a function of the user takes them together."""

F = TypeVar("F", bound=Callable[..., Any])


@singledispatch
def prepare_torch(operation: Operation, device: torch.device) -> TorchStep:  # noqa: ARG001 - for registered
    """Return the step of the Kornia engine that carries out ``operation``.

    The step may write to the images that it is given.

    Raises:
        EngineError: The operation has no implementation for this engine.
    """
    raise EngineError(
        f"engine 'kornia' cannot carry out {type(operation).__name__}: "
        "take it out of the recipe or register a function with gpu_aug.engines.backends.step.prepare_torch"
    )


def torch_step(function: F) -> F:
    """Register ``function(operation, x, params)`` as a step of the Kornia engine.

    The annotation of its first parameter names the operations that it carries out.
    """
    kind = next(iter(function.__annotations__.values()))
    prepare_torch.register(kind, lambda operation, _device: partial(function, operation))
    return function


@torch_step
def _keep_torch(_: OnTargets, x: Tensor, _params: Params) -> Tensor:
    """Return the images unchanged: the operation changes boxes, keypoints and masks only, which engines do not handle."""
    return x


def module(call: Any, **fixed: Tensor) -> TorchStep:
    """Return a step that calls a Kornia module with the drawn parameters; they stay on the host."""

    def apply(x: Tensor, params: Params) -> Tensor:
        tensors = {name: host(values) for name, values in params.items()} | fixed
        images: Tensor = call.apply_transform(x, tensors, call.flags)
        return images

    return apply


def on_rows(step: TorchStep, x: Tensor, params: Params) -> Tensor:
    """Return the batch with ``step`` applied to the images whose gate is open; the others stay bit-identical."""
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
    """Return parameters as a float32 tensor on the host."""
    return torch.from_numpy(np.ascontiguousarray(values, np.float32))


def host_step_torch(
    function: Callable[[NDArray[Any], Params, int], NDArray[Any]],
    dtype: Literal["uint8", "float32"],
) -> TorchStep:
    """Return a step of the Kornia engine that calls a CPU function on one image at a time.

    On CUDA the images are copied to the host and back, which waits for the device and is slow.

    Args:
        function: Takes an image [H, W, 3] of ``dtype``, the parameters of the batch and the image's row; returns a new
            image, uint8 or float32, of a size that is equal for all images. It must not write to its argument.
        dtype: Dtype that the function takes. For "uint8", float images are scaled to 255 and rounded before the call,
            and divided by 255 after it.
    """

    def apply(x: Tensor, params: Params) -> Tensor:
        device, is_uint8 = x.device, x.dtype == torch.uint8
        if dtype == "uint8" and x.dtype != torch.uint8:
            x = to_levels(x).to(torch.uint8)
        elif dtype == "float32" and x.dtype == torch.uint8:
            x = to_unit_(x.float())
        images = x.permute(0, 2, 3, 1).contiguous().cpu().numpy()
        changed = np.stack(
            [by_channel_triplets(function)(image, params, row) for row, image in enumerate(images)]
        )
        result = torch.from_numpy(changed).to(device).permute(0, 3, 1, 2).contiguous()
        return to_unit_(result.float()) if result.dtype == torch.uint8 and not is_uint8 else result

    return apply


@singledispatch
def prepare_numpy(operation: Operation) -> Any:
    """Return the step of the Albumentations engine that carries out ``operation`` on one image.

    It is a NumpyStep, or a BatchStep if the operation takes all images at once. The step does not write to the images that it
    is given.

    Raises:
        EngineError: The operation has no implementation for this engine.
    """
    raise EngineError(
        f"engine 'albumentations' cannot carry out {type(operation).__name__}: use engine 'kornia'"
    )


def numpy_step(function: F) -> F:
    """Register ``function(operation, image, params, row)`` as a step of the Albumentations engine.

    The annotation of its first parameter names the operations that it carries out. For operations that take all images at once
    the function is ``function(operation, images, params)``.
    """
    kind = next(iter(function.__annotations__.values()))
    prepare_numpy.register(kind, lambda operation: partial(function, operation))
    return function


@numpy_step
def _keep_numpy(_: OnTargets, image: Image, _params: Params, _row: int) -> Image:
    """Return the image unchanged: the operation changes boxes, keypoints and masks only, which engines do not handle."""
    return image


def transform(call: Any, *names: str) -> NumpyStep:
    """Return a step that calls an Albumentations transform with these of the drawn parameters."""

    def apply(image: Image, params: Params, row: int) -> Image:
        return inject(call, image, **{name: params[name][row] for name in names})

    return apply


@cache
def albumentations_transform(name: str) -> Any:
    """Return the Albumentations transform of this name with its default arguments.

    Threads may share it, because steps call it without changing its state.
    """
    import albumentations

    return getattr(albumentations, name)()


def inject(call: Any, image: Image, **params: Any) -> Image:
    """Return an image after an Albumentations transform with the given parameters instead of random ones."""
    result: Image = call.apply_with_params(params, image=image)["image"]
    return result


def as_bytes(image: Image) -> NDArray[np.uint8]:
    """Return an image as uint8; float values in [0, 1] are scaled to 255 and rounded to nearest."""
    if image.dtype == np.uint8:
        return image
    return np.clip(np.rint(image * np.float32(255)), 0, 255).astype(np.uint8)


def as_float(image: NDArray[np.uint8]) -> Image:
    """Return a uint8 image as float32 in [0, 1]."""
    return np.divide(image, np.float32(255), dtype=np.float32)


def host_step_numpy(function: NumpyStep, dtype: Literal["uint8", "float32"]) -> NumpyStep:
    """Return a step of the Albumentations engine that calls ``function`` with images of ``dtype``.

    For "uint8", float images are scaled to 255 and rounded before the call, and divided by 255 after it; images that are uint8
    already stay uint8.
    """

    def apply(image: Image, params: Params, row: int) -> Image:
        given = as_bytes(image) if dtype == "uint8" else image
        result = function(given, params, row)
        return as_float(result) if result.dtype == np.uint8 != image.dtype else result

    return apply
