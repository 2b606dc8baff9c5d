"""Step: the fused kernels against a copy on the device in the same run, and how they are best cut."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.batch import RECIPE
from bench.gpu_visit.scale import Notes, Scale, device_milliseconds
from bench.pictures import load_pictures
from gpu_aug import (
    ColorJitter,
    HorizontalFlip,
    Normalize,
    RandomAffine,
    RandomErasing,
    RandomPerspective,
    Recipe,
    compile_engine,
)

RECIPES = {
    "normalise": Recipe([Normalize()]),
    "flip, normalise": Recipe([HorizontalFlip(), Normalize()]),
    "affine, normalise": Recipe([RandomAffine(15.0, (0.1, 0.1), (0.9, 1.1)), Normalize()]),
    "perspective, normalise": Recipe([RandomPerspective(p=1.0), Normalize()]),
    "jitter, normalise": Recipe([ColorJitter(0.4, 0.4, 0.4, 0.1), Normalize()]),
    "hue, normalise": Recipe([ColorJitter(hue=0.1), Normalize()]),
    "erase, normalise": Recipe([RandomErasing(p=1.0), Normalize()]),
    "batch stage": RECIPE,
}
_NUM_SETS = 4  # batches that take turns, so that none stays in the cache


def kernel(scale: Scale, data: Path, notes: Notes) -> None:
    """Gigabytes per second of the fused engine, by recipe, type and layout, and by tiling."""
    images, copy = _images(scale, data), _copy(scale)
    notes.put(copy_gigabytes_per_second=copy)
    for name, recipe in RECIPES.items():
        for dtype, layout in (
            (torch.bfloat16, torch.channels_last),
            (torch.bfloat16, torch.contiguous_format),
            (torch.float32, torch.contiguous_format),
            (torch.uint8, torch.channels_last),
        ):
            if dtype == torch.uint8 and name != "flip, normalise":
                continue
            with notes.attempt(f"{name}, {dtype}, {layout}") as row:
                row |= _measure(recipe, images, dtype, layout, copy, scale)
    if scale.on_gpu:
        with notes.attempt("compiled") as row:
            row |= _compiled()
    share = notes.found["batch stage, torch.bfloat16, torch.channels_last"].get("share_of_copy")
    plain = notes.found["flip, normalise, torch.bfloat16, torch.channels_last"]
    notes.put(
        headline=f"copy {copy:.0f} GB/s; share of it: batch stage {share}, flip and normalise "
        f"{plain.get('share_of_copy')}"
    )


def _measure(
    recipe: Recipe,
    images: list[torch.Tensor],
    dtype: torch.dtype,
    layout: torch.memory_format,
    copy: float,
    scale: Scale,
    tiling: Any = None,
) -> dict[str, Any]:
    num, height, width = images[0].shape[:3]
    engine = compile_engine("fused", recipe, device=scale.device)
    if tiling is not None:
        from gpu_aug.engines.fused.triton import run_program

        vars(engine)["_run_program"] = partial(run_program, tiling=tiling)
    sizes = np.tile(np.array([height, width], np.int64), (num, 1))
    draws = [recipe.draw(0, epoch, np.arange(num), sizes) for epoch in range(_NUM_SETS)]
    outs = [
        torch.empty((num, 3, height, width), dtype=dtype, device=scale.device, memory_format=layout)
        for _ in range(_NUM_SETS)
    ]

    def call(number: int) -> None:
        turn = number % _NUM_SETS
        engine.run(images[turn], draws[turn], outs[turn])

    times = device_milliseconds(call, scale.device, calls=40 if scale.on_gpu else 2)
    found: dict[str, Any] = dict(times)
    kernels = _kernels(call, scale) if scale.on_gpu else {}
    found["kernels"] = kernels
    busy = sum(part["milliseconds"] for part in kernels.values()) or times["device"]
    moved = images[0].nbytes + outs[0].nbytes  # the least: each byte once
    found["gigabytes_per_second"] = round(moved / busy / 1e6, 1)
    found["share_of_copy"] = round(moved / busy / 1e6 / copy, 3)
    found["share_of_copy_with_gaps"] = round(moved / times["device"] / 1e6 / copy, 3)
    found["images_per_second"] = round(num / times["device"] * 1000)
    return found


def _kernels(call: Callable[[int], Any], scale: Scale, calls: int = 20) -> dict[str, Any]:
    """Milliseconds and launches per call of everything that runs on the device, by name."""
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize(scale.device)
    with profile(activities=[ProfilerActivity.CUDA]) as trace:
        for number in range(calls):
            call(number)
        torch.cuda.synchronize(scale.device)
    found = {}
    for event in trace.key_averages():
        micros = event.self_device_time_total
        if micros > 0 and not event.key.startswith("Memcpy"):
            found[event.key] = {
                "milliseconds": round(micros / 1000 / calls, 5),
                "launches": event.count / calls,
            }
    return found


def _copy(scale: Scale) -> float:
    """Gigabytes per second, read and written, of torch's copy of a large tensor."""
    size = 2**30 if scale.on_gpu else 2**22
    source = torch.randint(0, 255, (size,), dtype=torch.uint8, device=scale.device)
    target = torch.empty_like(source)
    time = device_milliseconds(lambda _: target.copy_(source), scale.device, calls=10)
    return round(2 * size / time["device"] / 1e6, 1)


def tilings(scale: Scale, data: Path, notes: Notes) -> None:
    """How the fused kernels are best cut; each way is compiled anew, which takes most of the time."""
    if not scale.on_gpu:
        notes.put(headline="nothing to rehearse: the CPU's kernels have no tiles")
        return
    from gpu_aug.engines.fused.triton import Tiling

    images, copy = _images(scale, data), _copy(scale)
    for tiling in (
        Tiling(),
        Tiling(num_registers=80),
        Tiling(height=32),
        Tiling(height=32, num_registers=128),
        Tiling(height=32, num_warps=8),
        Tiling(height=8, num_warps=2),
        Tiling(height=8, width=64),
        Tiling(tiles_per_sum=16),
    ):
        for name in ("flip, normalise", "batch stage"):
            with notes.attempt(f"{name}, {tiling}") as row:
                row |= _measure(
                    RECIPES[name], images, torch.bfloat16, torch.channels_last, copy, scale, tiling
                )
    with notes.attempt("compiled") as row:
        row |= _compiled()
    shares = {name: row.get("share_of_copy", 0) for name, row in notes.found.items()}
    best = max((name for name in shares if name.startswith("batch stage")), key=shares.__getitem__)
    notes.put(headline=f"{best}: {shares[best]} of a copy")


def _images(scale: Scale, data: Path) -> list[torch.Tensor]:
    """Several batches of photographs on the device, uint8 [b, side, side, 3]."""
    pictures = load_pictures(str(data), scale.batch_size, scale.side)
    turns = (np.roll(pictures, 17 * turn, axis=1) for turn in range(_NUM_SETS))
    return [torch.from_numpy(turned).to(scale.device) for turned in turns]


def _compiled() -> dict[str, Any]:
    """Registers, spills and shared memory of the kernels that were compiled in this process."""
    from gpu_aug.engines.fused import triton_kernels

    found = {}
    for function in (triton_kernels.run_pass, triton_kernels.sum_gray):
        for caches in function.device_caches.values():
            for number, built in enumerate(caches[0].values()):
                found[f"{function.__name__} {number}"] = {
                    "registers": built.n_regs,
                    "spills": built.n_spills,
                    "shared": built.metadata.shared,
                }
    return found
