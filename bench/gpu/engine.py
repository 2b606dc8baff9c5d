"""Step that measures the time of the engines fused and kornia per batch, on host and device."""

from collections.abc import Callable
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.gpu.contenders import resident_batch, training_step
from bench.gpu.rows import Row, Rows
from bench.gpu.scale import Scale, cut_photographs, host_us, kernel_us
from bench.timing import synchronise, take_turn
from gpu_aug import (
    ColorJitter,
    GaussianBlur,
    HorizontalFlip,
    Normalize,
    RandomAffine,
    RandomErasing,
    Recipe,
    compile_engine,
)

_NUM_SETS = 4  # batches that alternate, so that none stays in the cache
_CALLS = 40

_BATCH_STAGE = (
    RandomAffine(15.0, (0.1, 0.1), (0.9, 1.1)),
    ColorJitter(0.4, 0.4, 0.4, 0.1),
    GaussianBlur(7, (0.1, 2.0), p=0.0),
    RandomErasing(p=0.5),
    Normalize(),
)


def engine(scale: Scale, data: Path, rows: Rows) -> None:
    """Measure microseconds on the host and in kernels per batch, by engine and recipe."""
    step, resident = training_step(scale), resident_batch(scale)
    with rows.measure("training step of ResNet-50", "us/batch") as row:
        for _ in range(8):
            step(resident)
        row.put_runs([_device_us(partial(step, resident), scale) for _ in range(3)])
    percent = 100 / (row.value or 1.0)
    pictures = np.stack(list(cut_photographs(data, (scale.side, scale.side), scale.batch_size)))
    turned = (np.roll(pictures, 17 * number, axis=1) for number in range(_NUM_SETS))
    images = [torch.from_numpy(one).to(scale.device) for one in turned]
    recipes = {
        "flip, normalise": Recipe([HorizontalFlip(), Normalize()]),
        "imagenet_train_jitter": Recipe.imagenet_train_jitter(size=scale.side),
        "batch stage": Recipe(_BATCH_STAGE),
    }
    for name, recipe in recipes.items():
        for which in ("fused", "kornia"):
            with rows.measure(f"{which}, {name}: host", "us/batch") as row:
                _measure(row, _call(which, recipe, images, scale), percent, scale)


def _measure(row: Row, call: Callable[[], Any], percent: float, scale: Scale) -> None:
    """Fill in the microseconds of an engine call; `percent` is the percentage of a training step that it takes."""
    for _ in range(_NUM_SETS):  # compiles, and fills memory caches
        call()
    row.put_runs(host_us(call, scale, _CALLS))
    row.facts |= {
        "us/batch end to end": round(_device_us(call, scale)),
        "percent of a training step, host": round(percent * (row.value or 0), 2),
    }
    if scale.on_gpu:
        kernels = kernel_us(call, _CALLS)
        total = sum(kernels.values())
        row.facts |= {
            "us/batch of kernels": dict(list(kernels.items())[:6]),
            "us/batch of all kernels": round(total, 1),
            "percent of a training step, kernels": round(percent * total, 2),
        }


def _call(
    name: Any, recipe: Recipe, images: list[torch.Tensor], scale: Scale
) -> Callable[[], None]:
    """Return a call of the engine on alternating batches."""
    num, height, width = images[0].shape[:3]
    runner = compile_engine(name, recipe, device=scale.device)
    sizes = np.tile(np.array([height, width], np.int64), (num, 1))
    draws = [recipe.draw(0, epoch, np.arange(num), sizes) for epoch in range(_NUM_SETS)]
    out = torch.empty((num, 3, height, width), dtype=torch.bfloat16, device=scale.device)
    out = out.contiguous(memory_format=torch.channels_last)
    turns = cycle(zip(images, draws, strict=True))
    return lambda: runner.run(*next(turns), out)


def _device_us(call: Callable[[], Any], scale: Scale) -> float:
    """Return the microseconds per call for calls that follow each other without a pause."""
    calls = _CALLS if scale.on_gpu else 1
    finish = partial(synchronise, scale.device)
    turn = take_turn(call, seconds=60, discard=1, items_max=calls, count=lambda _: 1, finish=finish)
    return 1e6 / turn.rate
