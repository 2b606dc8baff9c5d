"""The same images in each library's usual layout, and calls of transforms as work to time.

- torchvision's v2 transforms get a uint8 tensor [b, 3, H, W]; one call draws once for all of its images.
- Albumentations gets uint8 arrays [H, W, 3], one call each.
- Kornia gets a float32 tensor [b, 3, H, W] in [0, 1] and draws for each image.
- Ours get uint8 [b, H, W, 3] and draw for each image; the draws are part of the work.

None of them copies its images to the device as part of the work.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from bench.compare.contestant import Unable
from bench.compare.timer import synchronise
from bench.micro.turns import Work
from bench.timing.limits import at_most
from gpu_aug import EngineError, Recipe, compile_engine
from gpu_aug.engines.engine import Engine

ENGINES = ("fused", "albumentations", "kornia")
"""Ours, in the order in which they are preferred."""


@dataclass(frozen=True)
class Case:
    """A batch of images in every form, on one device.

    Attributes:
        arrays: uint8 [b, H, W, 3].
        device: Where the tensors are.
    """

    arrays: NDArray[np.uint8]
    device: torch.device

    @property
    def stacked(self) -> torch.Tensor:
        """uint8 [b, H, W, 3]."""
        return torch.from_numpy(self.arrays).to(self.device)

    @property
    def planar(self) -> torch.Tensor:
        """uint8 [b, 3, H, W], contiguous."""
        return self.stacked.permute(0, 3, 1, 2).contiguous()

    @property
    def floats(self) -> torch.Tensor:
        """float32 [b, 3, H, W] in [0, 1], contiguous."""
        return self.planar.float() / 255

    def finish(self) -> None:
        """Wait until the device has done everything."""
        synchronise(self.device)


def on_tensor(transform: Callable[[Any], object], images: torch.Tensor) -> Work:
    """A transform of a whole batch, without gradients."""

    def work() -> object:
        with torch.inference_mode():
            return transform(images)

    return work


def on_arrays(transform: Callable[..., Any], case: Case) -> Work:
    """An Albumentations transform of one image after the other.

    Raises:
        Unable: The images are not on the CPU.
    """
    if case.device.type != "cpu":
        raise Unable("runs on the CPU only")

    def work() -> list[Any]:
        return [transform(image=image)["image"] for image in case.arrays]

    return work


def compiled(module: torch.nn.Module, images: torch.Tensor, *, seconds_max: float) -> Work:
    """A module behind torch.compile, called twice, since the second call compiles what the first left.

    Raises:
        Unable: It does not compile, or not within so many seconds.
    """
    torch.compiler.reset()
    # torch's types know functions only.
    work = on_tensor(cast("Any", torch.compile)(module), images)
    began = time.perf_counter()
    try:
        with at_most(seconds_max, "torch.compile"):
            work()
            work()
    except Exception as error:
        # An alarm may come out as an error of the compiler's.
        if time.perf_counter() - began >= seconds_max:
            raise Unable(f"torch.compile takes more than {seconds_max:g} s") from error
        # The compiler's own errors name the reason in their second line.
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise Unable(" ".join([f"{type(error).__name__}:", *lines[:2]])[:160]) from error
    return work


def ours(
    recipe: Recipe,
    case: Case,
    engine: str,
    *,
    dtype: torch.dtype = torch.uint8,
    drawn_ahead: bool = False,
) -> Work:
    """A recipe on one of our engines.

    Args:
        recipe: Without a decode stage that changes the size.
        case: The images.
        engine: One of ENGINES.
        dtype: Data type of the result, [b, 3, H, W] in the channels-last format.
        drawn_ahead: Whether to leave the drawing out, using the same draws in every call.

    Raises:
        Unable: The engine cannot do it.
    """
    built = _compiled(recipe, case.device, engine)
    images, (length, *size) = case.stacked, case.arrays.shape[:3]
    out = torch.empty(
        (length, 3, *size), dtype=dtype, device=case.device, memory_format=torch.channels_last
    )
    indices, sizes = np.arange(length), np.full((length, 2), size, np.int64)
    epochs = count()
    first = recipe.draw(0, 0, indices, sizes)

    def work() -> torch.Tensor:
        draws = first if drawn_ahead else recipe.draw(0, next(epochs), indices, sizes)
        built.run(images, draws, out)
        return out

    return work


def best_engine(recipe: Recipe, device: torch.device) -> str:
    """The first of ENGINES that can do a recipe.

    Raises:
        Unable: None can; the text says why the first cannot.
    """
    reasons = []
    for engine in ENGINES:
        try:
            _compiled(recipe, device, engine)
        except Unable as reason:
            reasons.append(str(reason))
        else:
            return engine
    raise Unable(reasons[0])


def _compiled(recipe: Recipe, device: torch.device, engine: str) -> Engine:
    try:
        return compile_engine(cast("Any", engine), recipe, device=device)
    except EngineError as error:
        raise Unable(str(error)) from error
