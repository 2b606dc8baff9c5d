"""Steps of other engines for operations that the fused kernels lack; each is a pass of its own."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpu_aug.draws import Params
from gpu_aug.engines.seeded import batch_function
from gpu_aug.errors import EngineError
from gpu_aug.ops import Operation
from gpu_aug.ops.foreign.function import BatchFunction

NO_KERNEL = "there is no fused kernel for {name}"
"""Why an operation is a pass of its own."""

Apply = Callable[[Sequence[Tensor], Params], list[Tensor]]
"""Images [H, W, 3], uint8 or float32, and their parameters in, new images out."""


def prepare_step(operation: Operation, device: torch.device) -> tuple[str, Apply]:
    """Return the engine that carries out ``operation`` instead of the fused kernels, and its step.

    A function of the user is called with all images at once. Other operations are carried out by Albumentations on the CPU if it
    can, otherwise by Kornia.

    Returns:
        "albumentations", "kornia" or, for a function of the user, "you"; and the function to call with images.

    Raises:
        EngineError: Neither engine can carry out the operation.
    """
    from gpu_aug.engines.backends.step import prepare_numpy, prepare_torch

    if isinstance(operation, BatchFunction):
        return "you", _together(batch_function(operation))
    if device.type == "cpu":
        try:
            import albumentations  # noqa: F401 - if it is missing, Kornia takes its place now and not in the middle of a run

            return "albumentations", _one_by_one(prepare_numpy(operation))
        except (EngineError, ModuleNotFoundError):
            pass
    try:
        return "kornia", _together(prepare_torch(operation, device))
    except EngineError as error:
        name = type(operation).__name__
        raise EngineError(
            f"engine 'fused' cannot carry out {name}, nor can the engines that it asks: {error}"
        ) from error


def prepare_mixing(operation: Operation, device: torch.device) -> tuple[str, Apply]:
    """Return the engine and the step, as ``prepare_step`` does, of an operation that mixes all images of a batch."""
    from gpu_aug.engines.backends.step import prepare_numpy, prepare_torch

    if device.type == "cpu":
        step = prepare_numpy(operation)
        return "albumentations", lambda images, params: [
            as_image(array) for array in step([image.numpy() for image in images], params)
        ]
    return "kornia", _together(prepare_torch(operation, device))


def _one_by_one(step: Any) -> Apply:
    def apply(images: Sequence[Tensor], params: Params) -> list[Tensor]:
        return [as_image(step(image.numpy(), params, row)) for row, image in enumerate(images)]

    return apply


def _together(step: Any) -> Apply:
    """Return a function that calls ``step`` once for all images that have one size and dtype."""

    def apply(images: Sequence[Tensor], params: Params) -> list[Tensor]:
        results: list[Any] = [None] * len(images)
        kinds = [(tuple(image.shape), image.dtype) for image in images]
        for kind in dict.fromkeys(kinds):
            rows = [row for row, other in enumerate(kinds) if other == kind]
            batch = torch.stack([images[row] for row in rows]).permute(0, 3, 1, 2).contiguous()
            drawn = {name: values[rows] for name, values in params.items()}
            changed = step(batch, drawn).permute(0, 2, 3, 1).contiguous()
            for row, image in zip(rows, changed, strict=True):
                results[row] = image
        return results

    return apply


def as_image(array: NDArray[Any]) -> Tensor:
    """Return an image [H, W, 3] as a tensor in a dtype and memory layout that the kernels can read."""
    if array.dtype not in (np.uint8, np.float32):
        array = array.astype(np.float32)
    packed = array.strides[1:] == (3 * array.itemsize, array.itemsize) and array.strides[0] >= 0
    return torch.from_numpy(array if packed else np.ascontiguousarray(array))
