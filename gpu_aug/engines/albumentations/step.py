"""Code shared by the functions of the Albumentations engine.

Transforms are called through ``apply_with_params``, which draws nothing and stores nothing, so
threads can share them.
"""

import os
from collections.abc import Callable
from functools import partial, singledispatch
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from gpu_aug.draws import Params
from gpu_aug.errors import EngineError
from gpu_aug.ops import OnTargets, Operation

os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")  # importing it would look on the network

Image = NDArray[Any]
"""[H, W, 3], float32, or uint8 where only operations that move pixels came before."""

Step = Callable[[Image, Params, int], Image]
"""One image [H, W, 3], the parameters of the batch and the image's row in, a new image out."""

BatchStep = Callable[[list[Image], Params], list[Image]]
"""All images and the parameters of the batch, ``partners`` among them, in; new images out: where images are mixed, or
a function of the user takes them together."""


@singledispatch
def prepare(operation: Operation) -> Any:
    """Return the Step that carries out ``operation`` on one image; a BatchStep where it takes all at once.

    The function does not write to the images it is given.
    """
    raise EngineError(
        f"engine 'albumentations' cannot carry out {type(operation).__name__}: use engine 'kornia'"
    )


F = TypeVar("F", bound=Callable[..., Any])


def carries_out(function: F) -> F:
    """Register ``function(operation, image, params, row)`` as the step of what its first parameter names.

    Where that takes all images at once it is ``function(operation, images, params)``.
    """
    kind = next(iter(function.__annotations__.values()))
    prepare.register(kind, lambda operation: partial(function, operation))
    return function


@carries_out
def _keep(_: OnTargets, image: Image, _params: Params, _row: int) -> Image:
    """Boxes, keypoints and masks are changed outside of the engines."""
    return image


def transform(call: Any, *names: str) -> Step:
    """Call a transform with the named parameters as they were drawn."""

    def apply(image: Image, params: Params, row: int) -> Image:
        return inject(call, image, **{name: params[name][row] for name in names})

    return apply


def inject(call: Any, image: Image, **params: Any) -> Image:
    """Call a transform with these parameters."""
    result: Image = call.apply_with_params(params, image=image)["image"]
    return result


def host_step(function: Step, dtype: Literal["uint8", "float32"]) -> Step:
    """Make a step of a function that takes images of ``dtype``.

    "uint8" rounds 255 times the value to 8 bits. What comes back as 8 bits is divided by 255, but where images are
    uint8 already.
    """

    def apply(image: Image, params: Params, row: int) -> Image:
        given = image
        if dtype == "uint8" and image.dtype != np.uint8:
            given = np.clip(np.rint(image * np.float32(255)), 0, 255).astype(np.uint8)
        result = function(given, params, row)
        if result.dtype == np.uint8 and image.dtype != np.uint8:
            return result.astype(np.float32) / np.float32(255)
        return result

    return apply
