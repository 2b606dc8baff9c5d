"""Step that measures memory over 200 training steps: without a loader, with DALI alone, and with our loaders."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median

import torch

from bench.gpu.contenders import (
    dali_batches,
    decoders,
    endless,
    loader_for,
    resident_batch,
    training_step,
)
from bench.gpu.rows import Row, Rows
from bench.gpu.scale import Scale, Size, photographs, temporary_files
from bench.timing import synchronise
from dali_pipes import available_decoders

GROWTH = {"torch": 16.0, "device": 32.0, "process": 96.0}
"""MiB by which the second half of a run may exceed the first: pools round up, and the heap is fragmented."""

_STEPS = 200
_SECONDS_MAX = 10.0  # of a run; 200 steps take 3.5 s without a loader
_WARM = 0.25  # share of the steps before the first half starts
_BATCH = 64
_MIB = 2**20

# Heights and widths, and the number of files of each: pools grow with the largest image that a row has had.
_SIZES: Sequence[tuple[Size, int]] = (((200, 250), 16), ((375, 500), 32), ((1080, 1920), 4), ((3000, 4000), 2))  # fmt: skip
_SMALL_SIZES: Sequence[tuple[Size, int]] = (((25, 31), 4), ((46, 62), 4))


def memory(scale: Scale, data: Path, rows: Rows) -> None:
    """Run the training step with each source, and watch three kinds of memory."""
    sizes = _SIZES if scale.on_gpu else _SMALL_SIZES
    files = [one for size, count in sizes for one in photographs(data, size, count)]
    resident, batch_size = resident_batch(scale)[:_BATCH], min(scale.batch_size, _BATCH)
    watch = partial(_watch, rows, scale, training_step(scale))
    with temporary_files(files) as folder:
        watch("no loader", lambda: resident)
        if reason := available_decoders()["dali"]:
            rows.leave_out("DALI's own pipeline", reason)
        else:
            with closing(dali_batches(folder, scale, 1.0, batch_size=batch_size)) as own:
                watch("DALI's own pipeline", lambda: next(own).permute(0, 3, 1, 2))
        for decoder in decoders(scale):
            with loader_for(scale, folder, decoder, batch_size=batch_size) as loader:
                watch(f"our loader, {decoder}", (b.images for b in endless(loader)).__next__)


def _watch(
    rows: Rows,
    scale: Scale,
    train: Callable[[torch.Tensor], None],
    name: str,
    take: Callable[[], torch.Tensor],
) -> None:
    """Train on batches, then write a row per kind of memory with its growth from the first half to the second."""
    looks: list[dict[str, float]] = []
    with rows.check(f"{name}: {_STEPS} steps") as row:
        last = time.perf_counter() + _SECONDS_MAX
        for number in range(_STEPS if scale.on_gpu else 8):
            train(take().to(torch.bfloat16))
            if number % 4 == 3:  # reading the memory waits for the device
                synchronise(scale.device)
                looks.append(read_memory(scale.device))
            if time.perf_counter() > last:
                break
        row.value, row.unit = number + 1, "steps"
    for kind, allowed in GROWTH.items() if len(looks) > 1 else ():
        with rows.check(f"{name}: growth of the {kind}") as row:
            judge_growth(row, [look[kind] for look in looks], allowed)


def judge_growth(row: Row, series: Sequence[float], allowed: float) -> None:
    """Fill in a row with the growth of a series; as a control, a leak of eight times the allowed growth must fail."""
    row.facts |= {"first": round(series[0]), "last": round(series[-1]), "peak": round(max(series))}
    leak = [value + 8 * allowed * n / len(series) for n, value in enumerate(series)]
    row.judge(_growth(series), allowed, control=_growth(leak), unit="MiB")


def _growth(looks: Sequence[float]) -> float:
    """Return the difference of the medians of the second and the first half, after the warm-up."""
    warm = looks[int(_WARM * len(looks)) :]
    return median(warm[len(warm) // 2 :]) - median(warm[: len(warm) // 2])


def read_memory(device: torch.device) -> dict[str, float]:
    """Return the used memory in MiB: by torch's allocator, on the device in total, and on the host by this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    is_cuda = device.type == "cuda"
    free, total = torch.cuda.mem_get_info(device) if is_cuda else (0, 0)
    in_bytes = {
        "torch": torch.cuda.memory_reserved(device) if is_cuda else 0,
        "device": total - free,
        "process": pages * os.sysconf("SC_PAGE_SIZE"),
    }
    return {kind: used / _MIB for kind, used in in_bytes.items()}
