"""Step: the device's memory over 200 training steps: without a loader, with DALI alone, and with our loaders."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch

from bench.gpu.dali_own import dali_batches
from bench.gpu.our_loader import Decoder, decoders, endless, loader_for
from bench.gpu.photographs import jpegs_in, photographs, write_files
from bench.gpu.rows import Row, Rows
from bench.gpu.scale import Scale, Size, finish
from bench.gpu.training import Step, resident_batch, training_step
from dali_pipes import available_decoders

GROWTH = {"torch": 16.0, "device": 32.0, "process": 96.0}
"""MiB by which the second half of a run may lie above the first: pools round up, and the heap has holes."""

_STEPS = 200
_SECONDS_MAX = 10.0  # of a run; 200 steps take 3.5 s without a loader
_WARM = 0.25  # share of the steps before the first half begins
_BATCH = 64
_MIB = 2**20

# Heights and widths, and how many files of each: pools grow with the largest image that a row has had.
_SIZES: Sequence[tuple[Size, int]] = (((200, 250), 16), ((375, 500), 32), ((1080, 1920), 4), ((3000, 4000), 2))  # fmt: skip


def memory(scale: Scale, data: Path, rows: Rows) -> None:
    """Run the training step over each source and watch three kinds of memory."""
    with TemporaryDirectory(prefix="gpu-aug-") as root:
        files = [one for size, count in _sizes(scale) for one in photographs(data, size, count)]
        folder = write_files(Path(root) / "files", files)
        step, lent = training_step(scale), resident_batch(scale)[:_BATCH]
        _watch(rows, "no loader", lambda: lent, step, scale)
        if available_decoders()["dali"]:
            rows.leave_out("DALI's own pipeline", str(available_decoders()["dali"]))
        else:
            own = dali_batches(jpegs_in(folder), scale, 1.0, batch_size=_batch_size(scale))
            _watch(rows, "DALI's own pipeline", lambda: next(own).permute(0, 3, 1, 2), step, scale)
            own.close()
        for decoder in decoders(scale):
            with ExitStack() as stack:
                batches = _opened(scale, folder, decoder, stack)
                _watch(rows, f"our loader, {decoder}", lambda: next(batches), step, scale)  # noqa: B023 - called here


def _sizes(scale: Scale) -> Sequence[tuple[Size, int]]:
    return _SIZES if scale.on_gpu else [((height // 8, width // 8), 4) for (height, width), _ in _SIZES[:2]]  # fmt: skip


def _batch_size(scale: Scale) -> int:
    return min(scale.batch_size, _BATCH)


def _opened(scale: Scale, folder: Path, decoder: Decoder, stack: ExitStack) -> Iterator[torch.Tensor]:  # fmt: skip
    loader = stack.enter_context(loader_for(scale, folder, decoder, batch_size=_batch_size(scale)))
    return (batch.images for batch in endless(loader))


def _watch(
    rows: Rows, name: str, take: Callable[[], torch.Tensor], step: Step, scale: Scale
) -> None:
    """Take the steps, then write a row per kind of memory: by how much the second half lies above the first."""
    looks: list[dict[str, float]] = []
    with rows.check(f"{name}: {_STEPS} steps") as row:
        last = time.perf_counter() + _SECONDS_MAX
        for number in range(_STEPS if scale.on_gpu else 8):
            step(take().to(torch.bfloat16))
            if number % 4 == 3:  # a look waits for the device
                finish(scale.device)
                looks.append(read_memory(scale.device))
            if time.perf_counter() > last:
                break
        row.value, row.unit = number + 1, "steps"
    for kind, allowed in GROWTH.items() if len(looks) > 1 else ():
        with rows.check(f"{name}: growth of the {kind}") as row:
            _judge_growth(row, [look[kind] for look in looks], allowed)


def _judge_growth(row: Row, series: Sequence[float], allowed: float) -> None:
    """Fill in a row; the control is the same series with a leak of eight times what is allowed."""
    row.unit = "MiB"
    row.facts |= {"first": round(series[0]), "last": round(series[-1]), "peak": round(max(series))}
    leak = [value + 8 * allowed * n / len(series) for n, value in enumerate(series)]
    row.judge(growth(series), allowed, control=growth(leak))


def growth(looks: Sequence[float]) -> float:
    """By how much the second half lies above the first, after the warm-up; by the medians."""
    warm = looks[int(_WARM * len(looks)) :]
    return median(warm[len(warm) // 2 :]) - median(warm[: len(warm) // 2])


def read_memory(device: torch.device) -> dict[str, float]:
    """Memory in use, MiB: by torch's allocator, on the device in total, and on the host by this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    held = {"torch": 0.0, "device": 0.0, "process": pages * os.sysconf("SC_PAGE_SIZE") / _MIB}
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        held |= {
            "torch": torch.cuda.memory_reserved(device) / _MIB,
            "device": (total - free) / _MIB,
        }
    return held
