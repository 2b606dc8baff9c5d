"""Step: speed of the fused kernels and of Kornia, relative to a device copy in the same run."""

from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.gpu.rows import Row, Rows
from bench.gpu.scale import Scale, finish, measure_rate
from bench.micro.batch import RECIPE
from bench.micro.pictures import load_pictures
from gpu_aug import HorizontalFlip, Normalize, Recipe, compile_engine

COPY = "a copy on the device"
"""The name of the row that the others are compared with."""

_BFLOAT16 = (torch.bfloat16, "channels last")
_CASES = (
    ("fused", "flip, normalise", *_BFLOAT16),
    ("fused", "batch stage", *_BFLOAT16),
    ("fused", "batch stage", torch.float32, "contiguous"),
    ("kornia", "batch stage", *_BFLOAT16),
    ("fused", "imagenet_train_jitter", *_BFLOAT16),
    ("kornia", "imagenet_train_jitter", *_BFLOAT16),
)
_LAYOUTS = {"channels last": torch.channels_last, "contiguous": torch.contiguous_format}
_NUM_SETS = 4  # batches that take turns, so that none stays in the cache
_CALLS = 20


def kernel(scale: Scale, data: Path, rows: Rows) -> None:
    """Gigabytes per second, each byte counted once, of engines, recipes, types and layouts; and what the kernels alone take."""
    copied = 2**30 if scale.on_gpu else 2**22
    source = torch.randint(0, 255, (copied,), dtype=torch.uint8, device=scale.device)
    target = torch.empty_like(source)
    with rows.measure(COPY, "GB/s") as row:
        _measure(row, partial(target.copy_, source), 2 * copied, scale)
    most = rows[COPY].value or 0.0
    with rows.measure("host to device", "GB/s") as row:
        pinned = torch.empty(copied // 4, dtype=torch.uint8, pin_memory=scale.on_gpu)
        upload = partial(target[: len(pinned)].copy_, pinned, non_blocking=True)
        _measure(row, upload, len(pinned), scale)
    images = _images(scale, data)
    recipes = {
        "flip, normalise": Recipe([HorizontalFlip(), Normalize()]),
        "batch stage": RECIPE,
        "imagenet_train_jitter": Recipe.imagenet_train_jitter(size=scale.side),
    }
    for engine, name, dtype, layout in _CASES:
        title = f"{engine}, {name}, {str(dtype).removeprefix('torch.')}, {layout}"
        with rows.measure(title, "GB/s") as row:
            call, moved = _work(engine, recipes[name], images, dtype, _LAYOUTS[layout], scale)
            _measure(row, call, moved, scale)
            row.facts["images/s"] = round((row.value or 0.0) * 1e9 / moved * len(images[0]))
            row.facts["share of a copy"] = round((row.value or 0.0) / most, 3)
            if scale.on_gpu:
                row.facts |= _kernels(call, moved, most, scale)


def _work(
    name: Any,
    recipe: Recipe,
    images: list[torch.Tensor],
    dtype: torch.dtype,
    layout: torch.memory_format,
    scale: Scale,
) -> tuple[Callable[[], Any], int]:
    """A call of the engine on sets that take turns, and the bytes that it has to move."""
    num, height, width = images[0].shape[:3]
    engine = compile_engine(name, recipe, device=scale.device)
    sizes = np.tile(np.array([height, width], np.int64), (num, 1))
    draws = [recipe.draw(0, epoch, np.arange(num), sizes) for epoch in range(_NUM_SETS)]
    outs = [
        torch.empty((num, 3, height, width), dtype=dtype, device=scale.device, memory_format=layout)
        for _ in range(_NUM_SETS)
    ]
    calls = count()

    def call() -> None:
        turn = next(calls) % _NUM_SETS
        engine.run(images[turn], draws[turn], outs[turn])

    return call, images[0].nbytes + outs[0].nbytes


def _measure(row: Row, call: Callable[[], Any], num_bytes: int, scale: Scale) -> None:
    """Fill in a row with the gigabytes per second of calls that follow each other without a break."""

    def counted() -> range:
        call()
        return range(num_bytes)

    measure_rate(row, counted, scale, discard=_NUM_SETS, seconds=scale.seconds / 2)
    row.put_runs([run / 1e9 for run in row.facts["runs"]])


def _kernels(call: Callable[[], Any], moved: int, most: float, scale: Scale) -> dict[str, Any]:
    """Milliseconds of a call that kernels run, by name, and the share of a copy's rate without the gaps between them."""
    from torch.profiler import ProfilerActivity, profile

    finish(scale.device)
    with profile(activities=[ProfilerActivity.CUDA]) as trace:
        for _ in range(_CALLS):
            call()
        finish(scale.device)
    spent = {
        event.key[:80]: round(event.self_device_time_total / 1000 / _CALLS, 5)
        for event in trace.key_averages()
        if event.self_device_time_total > 0 and not event.key.startswith("Memcpy")
    }
    alone = moved / (sum(spent.values()) / 1000) / 1e9
    return {
        "milliseconds of kernels": spent,
        "share of a copy, kernels alone": round(alone / most, 3),
    }


def _images(scale: Scale, data: Path) -> list[torch.Tensor]:
    """Several batches of photographs on the device, uint8 [b, side, side, 3]."""
    pictures = load_pictures(str(data), scale.batch_size, scale.side)
    turns = (np.roll(pictures, 17 * turn, axis=1) for turn in range(_NUM_SETS))
    return [torch.from_numpy(turned).to(scale.device) for turned in turns]
