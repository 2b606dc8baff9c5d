"""Whether memory stays flat over many batches of images of very different sizes, and what the most of it is."""

import os
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bench.gpu_visit.photographs import photographs
from bench.gpu_visit.scale import Scale, Size, finish
from dali_pipes import Loader

ALLOWED = {"torch": 16, "device": 32, "process": 96}
"""MiB by which the second half may lie above the first: pools round up, and the heap has holes."""

_SECONDS_MAX = 24.0  # for each decoder
_CYCLE = 400  # images; every 25 batches of 32 are the same images again
_WARM = 0.25  # of the batches, in which every image has been seen
_LOOKS = 100
_MIB = 2**20

# Size, how many files, and at which places of a cycle; the small ones take all other places.
_SIZES: tuple[tuple[Size, int], ...] = (
    ((200, 250), 8),
    ((300, 400), 8),
    ((375, 500), 8),
    ((480, 640), 4),
)
_LARGE_SIZES: tuple[tuple[Size, range], ...] = (
    ((1080, 1920), range(30, _CYCLE, 50)),
    ((3000, 4000), range(100, 101)),
    ((4000, 6000), range(300, 301)),
)


def write_pictures(data: Path, folder: Path, scale: Scale) -> NDArray[np.int64]:
    """Write JPEGs from 0.05 to 24 megapixels (in a rehearsal smaller ones).

    Returns:
        int64 [cycle], which file comes when.
    """
    folder.mkdir(parents=True)
    shrink = 1 if scale.on_gpu else 8
    encoded: list[bytes] = []
    for size, count in _SIZES:
        encoded += photographs(data, size, count if scale.on_gpu else 1, seed=len(encoded))
    picks = np.arange(_CYCLE, dtype=np.int64) % len(encoded)
    for (height, width), places in _LARGE_SIZES:
        picks[places.start : places.stop : places.step] = len(encoded)
        encoded += photographs(data, (height // shrink, width // shrink), 1)
    for number, content in enumerate(encoded):
        (folder / f"{number:02d}.jpg").write_bytes(content)
    return picks if scale.on_gpu else np.concatenate([picks[:6], picks[-3:], picks[[100, 300]]])


def watch(open_loader: Callable[..., Loader], scale: Scale, row: dict[str, Any]) -> None:
    """Run a loader and fill in a row.

    Args:
        open_loader: Takes options of a loader.
        scale: How many batches.
        row: Gets what was seen.

    Raises:
        AssertionError: Memory grows by more than ALLOWED.
    """
    if scale.on_gpu:
        torch.ones(1, device=scale.device).sum()  # so that the context is there
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(scale.device)
    row["MiB before"] = before = read_memory(scale.device)
    row["allowed, MiB"] = ALLOWED
    began = time.perf_counter()
    with open_loader(batch_size=min(scale.batch_size, 32), shuffle="none") as loader:
        row["batches"], looks = _run(loader, scale)
        row["seconds"] = round(time.perf_counter() - began, 1)
        finish(scale.device)
        row["peak, MiB"] = _explain(before, looks, scale.device)
    some = looks[:: max(1, len(looks) // 10)]
    row["MiB of torch, of the device, of the process"] = [list(look.values()) for look in some]
    row["given back by DALI, MiB"] = given_back(scale.device)
    row["MiB after"] = read_memory(scale.device)
    row["growth, MiB"] = found = growth(looks)
    too_much = {name: value for name, value in found.items() if value > ALLOWED[name]}
    assert not too_much, f"memory grows over {row['batches']} batches, MiB: {too_much}, allowed {ALLOWED}"  # fmt: skip


def _run(loader: Loader, scale: Scale) -> tuple[int, list[dict[str, int]]]:
    """Take the batches, as many as there is time for, and look now and then."""
    looks: list[dict[str, int]] = []
    every, last = max(1, scale.num_batches // _LOOKS), time.perf_counter() + _SECONDS_MAX
    number = 0
    for batch in islice(_endless(loader), scale.num_batches):
        number += 1
        batch.images.mean(dtype=torch.float32)
        del batch
        if number % every == 0:
            looks.append(read_memory(scale.device))
            if time.perf_counter() > last:
                break
    return number, looks


def _endless(loader: Loader) -> Iterator[Any]:
    while True:
        yield from loader


def growth(looks: list[dict[str, int]]) -> dict[str, float]:
    """By how much the second half lies above the first, after the warm-up; by the medians."""
    warm = looks[int(_WARM * len(looks)) :]
    first, second = warm[: len(warm) // 2], warm[len(warm) // 2 :]
    return {
        name: median(look[name] for look in second) - median(look[name] for look in first)
        for name in ALLOWED
    }


def read_memory(device: torch.device) -> dict[str, int]:
    """What is held at present, MiB: by torch's allocator, of the device by everybody, by this process of the host."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    process = pages * os.sysconf("SC_PAGE_SIZE") // _MIB
    if device.type != "cuda":
        return {"torch": 0, "device": 0, "process": process}
    free, total = torch.cuda.mem_get_info(device)
    return {
        "torch": torch.cuda.memory_reserved(device) // _MIB,
        "device": (total - free) // _MIB,
        "process": process,
    }


def _explain(
    before: dict[str, int], looks: list[dict[str, int]], device: torch.device
) -> dict[str, int]:
    """Whose the most of the device's memory is, MiB; what is neither context nor torch's is DALI's pools and libraries."""
    most = {name: max(look[name] for look in looks) for name in ALLOWED}
    if device.type != "cuda":
        return {"process": most["process"]}
    context = before["device"] - before["torch"]
    return {
        "device": most["device"],
        "context and others before": context,
        "torch held": most["torch"],
        "torch used": torch.cuda.max_memory_allocated(device) // _MIB,
        "DALI and libraries": most["device"] - context - most["torch"],
        "process": most["process"],
    }


def given_back(device: torch.device) -> int:
    """MiB of the device that DALI's pools hold without using them: it is asked to give them back."""
    if device.type != "cuda":
        return 0
    try:
        backend: Any = import_module("nvidia.dali.backend")
    except ImportError:
        return 0
    finish(device)
    before = read_memory(device)["device"]
    backend.ReleaseUnusedMemory()
    return before - read_memory(device)["device"]
