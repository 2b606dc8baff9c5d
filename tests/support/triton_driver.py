"""Launches fused passes on a driver that stands for an H100 and does nothing, and prints how often kernels were compiled.

    python -m tests.support.triton_driver

In a process of its own: what is compiled for the driver stays with Triton.
"""

import sys
from typing import Any

import numpy as np
import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from gpu_aug import (
    ColorJitter,
    HorizontalFlip,
    Normalize,
    Posterize,
    RandomAffine,
    RandomErasing,
    Recipe,
    Resize,
)
from gpu_aug.engines.fused import engine
from gpu_aug.engines.fused.triton import kernels as triton_kernels
from gpu_aug.engines.fused.triton.run import run_program


class Driver:
    """What Triton asks of a driver when it launches a kernel."""

    class utils:  # noqa: N801, D106 - Triton's name
        load_binary = staticmethod(lambda *_: (0, 0, 96, 0, 1024))
        get_device_properties = staticmethod(lambda _: {"max_shared_mem": 232448})

    launcher_cls = staticmethod(lambda *_: lambda *_, **__: None)
    get_current_device = staticmethod(lambda: 0)
    get_current_stream = staticmethod(lambda _: 0)
    get_current_target = staticmethod(lambda: GPUTarget("cuda", 90, 32))
    get_active_torch_device = staticmethod(lambda: torch.device("cpu"))


def main() -> None:
    """Run batches of several numbers of images of several sizes."""
    active: Any = driver
    active.set_active(Driver())
    engine._kernels = lambda _: run_program  # type: ignore[assignment]
    for num, side in ((8, 48), (7, 200), (5, 224)):
        run(num, side)
    for kernel in (triton_kernels.run_pass, triton_kernels.sum_gray):
        sys.stdout.write(f"{len(kernel.device_caches[0][0])}\n")


def run(num: int, side: int) -> None:
    """Run one batch."""
    steps = [HorizontalFlip(), RandomAffine(10), ColorJitter(0.4, 0.4, 0.4, 0.1), Posterize(4), RandomErasing(), Normalize()]  # fmt: skip
    recipe = Recipe([Resize((side, side)), *steps])
    draws = recipe.draw(1, 0, np.arange(num), np.full((num, 2), side))
    out = torch.empty(num, 3, side, side, dtype=torch.bfloat16).to(
        memory_format=torch.channels_last
    )
    images = torch.zeros(num, side, side, 3, dtype=torch.uint8)
    engine.FusedEngine(recipe, device=torch.device("cpu")).run(images, draws, out)


if __name__ == "__main__":
    main()
