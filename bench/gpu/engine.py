"""Step: what the fused engine takes of the host and of the device per step, and of a training step."""

import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from bench.gpu.rows import Rows
from bench.gpu.scale import Scale, finish
from bench.gpu.training import resident_batch, training_step
from bench.micro.pictures import load_pictures
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

_NUM_SETS = 4  # batches that take turns, so that none stays in the cache
_CALLS = 40
_BATCH_STAGE = Recipe(
    [
        RandomAffine(15.0, (0.1, 0.1), (0.9, 1.1)),
        ColorJitter(0.4, 0.4, 0.4, 0.1),
        GaussianBlur(7, (0.1, 2.0), p=0.0),
        RandomErasing(p=0.5),
        Normalize(),
    ]
)


def engine(scale: Scale, data: Path, rows: Rows) -> None:
    """Host microseconds and kernel milliseconds per batch, by engine and recipe."""
    step, lent = training_step(scale), resident_batch(scale)
    with rows.measure("training step of ResNet-50", "us/batch") as row:
        for _ in range(8 if scale.on_gpu else 1):
            step(lent)
        row.put_runs([_device_us(lambda: step(lent), scale) for _ in range(3)])
        whole = row.value or 1.0
    images = _images(scale, data)
    recipes = {
        "flip, normalise": Recipe([HorizontalFlip(), Normalize()]),
        "imagenet_train_jitter": Recipe.imagenet_train_jitter(size=scale.side),
        "batch stage": _BATCH_STAGE,
    }
    for name, recipe in recipes.items():
        for which in ("fused", "kornia"):
            with rows.measure(f"{which}, {name}: host", "us/batch") as row:
                call, draw = _work(which, recipe, images, scale)
                draw_us = median(_host_us(draw, scale))
                row.put_runs(_host_us(call, scale))
                host, device = row.value or 0.0, _device_us(call, scale)
                row.facts["us/batch of a thread for draws"] = round(draw_us)
                row.facts["us/batch end to end"] = round(device)
                row.facts["percent of a training step, host"] = round(100 * host / whole, 2)
                if scale.on_gpu:
                    row.facts |= _kernels(call, whole)


def _work(
    name: Any, recipe: Recipe, images: list[torch.Tensor], scale: Scale
) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """A call of the engine on sets that take turns, and a call that makes the draws of a batch."""
    num, height, width = images[0].shape[:3]
    runner = compile_engine(name, recipe, device=scale.device)
    sizes = np.tile(np.array([height, width], np.int64), (num, 1))
    draws = [recipe.draw(0, epoch, np.arange(num), sizes) for epoch in range(_NUM_SETS)]
    out = torch.empty((num, 3, height, width), dtype=torch.bfloat16, device=scale.device)
    out = out.contiguous(memory_format=torch.channels_last)
    calls = count()

    def call() -> None:
        turn = next(calls) % _NUM_SETS
        runner.run(images[turn], draws[turn], out)

    return call, lambda: recipe.draw(0, next(calls), np.arange(num), sizes)


def _host_us(call: Callable[[], Any], scale: Scale) -> list[float]:
    """Microseconds until a call returns, with the device idle before it."""
    taken = []
    for number in range(_NUM_SETS + (_CALLS if scale.on_gpu else 2)):
        finish(scale.device)
        began = time.perf_counter()
        call()
        if number >= _NUM_SETS:
            taken.append(1e6 * (time.perf_counter() - began))
    return taken


def _device_us(call: Callable[[], Any], scale: Scale) -> float:
    """Microseconds per call of calls that follow each other without a break."""
    calls = _CALLS if scale.on_gpu else 1
    call()
    finish(scale.device)
    began = time.perf_counter()
    for _ in range(calls):
        call()
    finish(scale.device)
    return 1e6 * (time.perf_counter() - began) / calls


def _kernels(call: Callable[[], Any], whole: float) -> dict[str, Any]:
    """Microseconds of a call by kernel, and their share of a training step."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as trace:
        for _ in range(_CALLS):
            call()
        torch.cuda.synchronize()
    spent = {
        event.key[:80]: round(event.self_device_time_total / _CALLS, 1)
        for event in trace.key_averages()
        if event.self_device_time_total > 0 and not event.key.startswith("Memcpy")
    }
    total = sum(spent.values())
    longest = dict(sorted(spent.items(), key=lambda item: -item[1])[:6])
    return {
        "us/batch of kernels": longest,
        "us/batch of all kernels": round(total, 1),
        "percent of a training step, kernels": round(100 * total / whole, 2),
    }


def _images(scale: Scale, data: Path) -> list[torch.Tensor]:
    """Several batches of photographs on the device, uint8 [b, side, side, 3]."""
    pictures = load_pictures(str(data), scale.batch_size, scale.side)
    turns = (np.roll(pictures, 17 * turn, axis=1) for turn in range(_NUM_SETS))
    return [torch.from_numpy(turned).to(scale.device) for turned in turns]
