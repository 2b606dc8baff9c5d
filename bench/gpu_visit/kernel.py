"""Steps: the fused kernels against what the device can do in the same run, and how they are best cut.

Two floors stand under each: the bytes that have to be moved, each once, at the rate of a copy; and the operations that
cannot be left out, at the rate of a float32 matrix product. The higher one is what the time is compared with.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from bench.gpu_visit.operations import operations_of
from bench.gpu_visit.scale import Notes, Scale, device_milliseconds
from bench.micro.batch import RECIPE
from bench.micro.pictures import load_pictures
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
from gpu_aug.engines.fused.compile.program import Program

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
_REPEATS = 5


@dataclass(frozen=True)
class Ceiling:
    """What the device reaches in this run.

    Attributes:
        copy: Gigabytes per second, read and written, of a copy on the device.
        arithmetic: Thousand millions of float32 instructions per second, a product and a sum in one, of a
            matrix product.
    """

    copy: float
    arithmetic: float


def kernel(scale: Scale, data: Path, notes: Notes) -> None:
    """Time over the floors of the fused engine, by recipe, type and layout."""
    images, ceiling = _images(scale, data), _ceiling(scale)
    notes.put(
        copy_gigabytes_per_second=ceiling.copy, float32_ginstructions_per_second=ceiling.arithmetic
    )
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
                row |= _measure(recipe, images, dtype, layout, ceiling, scale)
    if scale.on_gpu:
        with notes.attempt("compiled") as row:
            row |= _compiled()
    notes.put(headline=_headline(notes, ceiling))


def _headline(notes: Notes, ceiling: Ceiling) -> str:
    parts = [f"copy {ceiling.copy:.0f} GB/s, {ceiling.arithmetic / 1000:.1f} T float32/s"]
    for name in ("flip, normalise", "batch stage"):
        row = notes.found[f"{name}, torch.bfloat16, torch.channels_last"]
        if "error" in row:
            parts.append(f"{name}: {row['error']}")
        else:
            parts.append(
                f"{name}: {row['times_floor']} times its floor ({row['floor']}), "
                f"{row['share_of_copy']} of a copy"
            )
    return "; ".join(parts)


def _measure(
    recipe: Recipe,
    images: list[torch.Tensor],
    dtype: torch.dtype,
    layout: torch.memory_format,
    ceiling: Ceiling,
    scale: Scale,
    tiling: Any = None,
) -> dict[str, Any]:
    num, height, width = images[0].shape[:3]
    engine = compile_engine("fused", recipe, device=scale.device)
    if tiling is not None:
        from gpu_aug.engines.fused.triton.run import run_program

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

    operations = _operations(engine, call)
    calls = 40 if scale.on_gpu else 2
    looks = [
        device_milliseconds(call, scale.device, calls=calls, repeats=1) for _ in range(_REPEATS)
    ]
    times = {name: median(look[name] for look in looks) for name in ("device", "host")}
    kernels = _kernels(call, scale) if scale.on_gpu else {}
    busy = sum(part["milliseconds"] for part in kernels.values()) or times["device"]
    moved = images[0].nbytes + outs[0].nbytes
    return {
        **{f"milliseconds_{name}": round(time, 5) for name, time in times.items()},
        "images_per_second": round(num / times["device"] * 1000),
        "runs": [round(num / look["device"] * 1000) for look in looks],
        "kernels": kernels,
        "milliseconds_of_kernels": round(busy, 5),
        **_floors(moved, operations, busy, ceiling),
        "bytes_per_image": moved // num,
        "operations_per_image": round(operations / num),
        "gigabytes_per_second": round(moved / busy / 1e6, 1),
        "share_of_copy": round(moved / busy / 1e6 / ceiling.copy, 3),
        "share_of_copy_with_gaps": round(moved / times["device"] / 1e6 / ceiling.copy, 3),
    }


def _floors(moved: int, operations: float, busy: float, ceiling: Ceiling) -> dict[str, Any]:
    """Milliseconds below which a batch cannot come: for its bytes, for its operations; and the time over the higher."""
    floors = {
        "bytes": moved / ceiling.copy / 1e6,
        "operations": operations / ceiling.arithmetic / 1e6,
    }
    higher = max(floors, key=floors.__getitem__)
    return {
        "floor_milliseconds": {name: round(floor, 5) for name, floor in floors.items()},
        "floor": higher,
        "times_floor": round(busy / floors[higher], 2),
    }


def _operations(engine: Any, call: Callable[[int], Any]) -> float:
    """Operations of a batch, on average over the sets: the programs are looked at on their way to the kernels."""
    run, total = engine._run_program, 0.0

    def look(program: Program, images: Any, *rest: Any) -> None:
        nonlocal total
        is_float = images is not None and images[0].dtype == torch.float32
        total += operations_of(program, is_float=is_float)
        run(program, images, *rest)

    vars(engine)["_run_program"] = look
    try:
        for number in range(_NUM_SETS):
            call(number)
    finally:
        vars(engine)["_run_program"] = run
    return total / _NUM_SETS


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


def _ceiling(scale: Scale) -> Ceiling:
    """A copy of a large tensor, and a product of large float32 matrices without tensor cores."""
    size = 2**30 if scale.on_gpu else 2**22
    source = torch.randint(0, 255, (size,), dtype=torch.uint8, device=scale.device)
    target = torch.empty_like(source)
    copying = device_milliseconds(lambda _: target.copy_(source), scale.device, calls=10)
    side = 4096 if scale.on_gpu else 128
    one = torch.randn(side, side, device=scale.device)
    product = torch.empty_like(one)
    usual = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    multiplying = device_milliseconds(
        lambda _: torch.mm(one, one, out=product), scale.device, calls=10
    )
    torch.set_float32_matmul_precision(usual)
    return Ceiling(
        round(2 * size / copying["device"] / 1e6, 1),
        round(side**3 / multiplying["device"] / 1e6, 1),
    )


def tilings(scale: Scale, data: Path, notes: Notes) -> None:
    """How the fused kernels are best cut; each way is compiled anew, which takes most of the time."""
    if not scale.on_gpu:
        notes.put(headline="nothing to rehearse: the CPU's kernels have no tiles")
        return
    from gpu_aug.engines.fused.triton.run import Tiling

    images, ceiling = _images(scale, data), _ceiling(scale)
    for tiling in (
        Tiling(),
        Tiling(num_registers=80),
        Tiling(height=32),
        Tiling(height=32, num_warps=8),
        Tiling(height=8, width=64),
        Tiling(tiles_per_sum=16),
    ):
        for name in ("flip, normalise", "batch stage"):
            with notes.attempt(f"{name}, {tiling}") as row:
                row |= _measure(
                    RECIPES[name],
                    images,
                    torch.bfloat16,
                    torch.channels_last,
                    ceiling,
                    scale,
                    tiling,
                )
    with notes.attempt("compiled") as row:
        row |= _compiled()
    notes.put(headline="; ".join(_best(notes, name) for name in ("flip, normalise", "batch stage")))


def _best(notes: Notes, recipe: str) -> str:
    times = {
        name: row["milliseconds_of_kernels"]
        for name, row in notes.found.items()
        if name.startswith(recipe) and "milliseconds_of_kernels" in row
    }
    if not times:
        return f"{recipe}: none ran"
    best = min(times, key=times.__getitem__)
    usual = times.get(f"{recipe}, {_usual()}")
    gain = f", the default's {usual / times[best]:.2f} times as fast" if usual else ""
    return f"{best}: {notes.found[best]['share_of_copy']} of a copy{gain}"


def _usual() -> Any:
    from gpu_aug.engines.fused.triton.run import Tiling

    return Tiling()


def _images(scale: Scale, data: Path) -> list[torch.Tensor]:
    """Several batches of photographs on the device, uint8 [b, side, side, 3]."""
    pictures = load_pictures(str(data), scale.batch_size, scale.side)
    turns = (np.roll(pictures, 17 * turn, axis=1) for turn in range(_NUM_SETS))
    return [torch.from_numpy(turned).to(scale.device) for turned in turns]


def _compiled() -> dict[str, Any]:
    """Registers, spills and shared memory of the kernels that were compiled in this process."""
    from gpu_aug.engines.fused.triton import kernels as triton_kernels

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
