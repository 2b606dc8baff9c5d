"""Step: our JPEG decoder on the GPU: its bits beside the CPU decoder's, and its rates beside torchvision's."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bench.gpu.cuda_jpeg_batches import (
    SAMPLINGS,
    Batch,
    checkpoints_of,
    drawn,
    encode,
    expected,
    make_batch,
    sizes_of,
    verdicts,
    whole,
)
from bench.gpu.photographs import jpegs_in, photographs
from bench.gpu.rows import Row, Rows
from bench.gpu.scale import Scale, finish, measure_rate
from dali_pipes.decode.cuda_jpeg.batch import Kernels, Planned, Planner, launch
from dali_pipes.decode.cuda_jpeg.on_cpu import CpuKernels
from dali_pipes.decode.cuda_jpeg.on_gpu import gpu_kernels
from dali_pipes.jpeg.checkpoints import EVERY
from readers.cores import usable_cores

_THREADS = (1, 4, 8, 16)
_CALLS = 20
_SECONDS = 1.2  # of a rate: three slices of 0.4 s, 100 batches each


def cuda_jpeg(scale: Scale, data: Path, rows: Rows) -> None:
    """Bits first; then rates for whole photographs, crops, and larger ones."""
    began = time.perf_counter()
    kernels: Kernels = gpu_kernels(scale.device) if scale.on_gpu else CpuKernels()
    with rows.measure("compiling the kernels", "s") as row:
        row.put_runs([time.perf_counter() - began])
    _check(kernels, data, rows)
    for size, (number, batch_size) in scale.pictures.items():
        encoded = photographs(data, size, min(number, batch_size))
        checkpoints = checkpoints_of(encoded, EVERY)
        sizes = sizes_of(encoded)
        for name, crops in (("whole", whole(sizes)), ("crops of 224", drawn(sizes, 224))):
            batch = make_batch(encoded, crops, scale.device, checkpoints)
            title = f"{size[1]}x{size[0]}, {name}"
            _judge(rows, f"{title}: bits", batch, kernels)
            _measure(rows, title, batch, kernels, scale)
        with rows.measure(f"{size[1]}x{size[0]}, whole: torchvision") as row:
            measure_rate(row, _torchvision(encoded, scale), scale, discard=4)


def _check(kernels: Kernels, data: Path, rows: Rows) -> None:
    """All samplings, odd sizes, turns and crops, by checkpoints and by restart markers; then damaged files among sound ones."""
    for restart in (0, 5):
        encoded = list(_pictures(data, restart))
        known = checkpoints_of(encoded, 5) if not restart else [None] * len(encoded)
        sizes = sizes_of(encoded)
        for name, crops in (("whole", whole(sizes)), ("crops", drawn(sizes, 96))):
            batch = make_batch(encoded, crops, kernels.device, known)
            by = "restart markers" if restart else "checkpoints"
            _judge(rows, f"all samplings, sizes and turns, {name}, by {by}", batch, kernels)
    _check_damage(kernels, list(_pictures(data, 5)), rows)


def _pictures(data: Path, restart: int) -> Iterator[bytes]:
    import cv2

    paths = jpegs_in(data)
    rng = np.random.default_rng(0)
    for number in range(96):
        image: Any = cv2.imread(str(paths[number * 7 % len(paths)]))
        height, width = (int(rng.integers(1, min(side, 200) + 1)) for side in image.shape[:2])
        sampling = [*SAMPLINGS, "gray"][number % 6]
        part = np.ascontiguousarray(image[:height, :width])
        quality = int(rng.integers(30, 101))
        yield encode(part, sampling, restart=restart, orientation=1 + number // 6 % 8, quality=quality)  # fmt: skip


def _judge(rows: Rows, name: str, batch: Batch, kernels: Kernels) -> None:
    """Compare every canvas; the largest difference must be 0."""
    with rows.check(name) as row:
        launched = launch(Planner(pinned=kernels.device.type == "cuda").plan(batch.files, batch.wanted), kernels)  # fmt: skip
        bad = verdicts(launched)
        assert not bad.any(), f"statuses {sorted(set(bad.tolist()))}"
        canvases = [canvas.cpu().numpy() for canvas in batch.canvases]
        right = [expected(batch, number) for number in range(len(canvases))]
        gaps = [_gap(one, other) for one, other in zip(canvases, right, strict=True)]
        control = max(_gap(one, 255 - other) for one, other in zip(canvases, right, strict=True))
        row.facts |= {"images": len(gaps), "differ": sum(gap > 0 for gap in gaps)}
        row.judge(max(gaps), 0, control)


def _gap(one: NDArray[np.uint8], other: NDArray[np.uint8]) -> int:
    return int(np.abs(one.astype(np.int16) - other).max())


def _check_damage(kernels: Kernels, encoded: list[bytes], rows: Rows) -> None:
    """Every second file gets broken codes: its neighbours are right all the same, and the kernels notice most of them."""
    with rows.check("damaged files among sound ones") as row:
        rng = np.random.default_rng(1)
        sizes, damaged = sizes_of(encoded), list(encoded)
        for number in range(0, len(encoded), 2):
            broken = bytearray(encoded[number])
            begin = broken.index(b"\xff\xda") + 14
            for at in rng.integers(begin, len(broken) - 2, 1 + len(broken) // 200).tolist():
                if 0xFF not in broken[at - 1 : at + 1]:
                    broken[at] = int(rng.integers(0xFF))
            damaged[number] = bytes(broken)
        batch = make_batch(damaged, whole(sizes), kernels.device, [None] * len(sizes))
        planner = Planner(pinned=kernels.device.type == "cuda")
        bad = verdicts(launch(planner.plan(batch.files, batch.wanted), kernels))
        sound = range(1, len(encoded), 2)
        gap = max(_gap(batch.canvases[at].cpu().numpy(), expected(batch, at)) for at in sound)
        noticed = int((bad[::2] != 0).sum())
        row.facts |= {
            "noticed": noticed,
            "damaged": len(bad[::2]),
            "statuses": np.unique(bad).tolist(),
        }
        assert not bad[1::2].any(), "a sound file is refused"
        row.judge(gap, 0, control=noticed)


def _measure(rows: Rows, title: str, batch: Batch, kernels: Kernels, scale: Scale) -> None:
    """The host's part, each kernel, the device alone, and all of it with several threads."""
    images = range(len(batch.encoded))
    planner = Planner(pinned=scale.on_gpu)
    planned = planner.plan(batch.files, batch.wanted)
    with rows.measure(f"{title}: host", "us/image") as row:
        seconds = [_timed(partial(planner.plan, batch.files, batch.wanted)) for _ in range(9)]
        row.put_runs([second * 1e6 / len(images) for second in seconds[2:]])
        row.facts |= _facts(planned)
    with rows.measure(f"{title}: kernels", "ms") as row:
        spent = _spent(planned, kernels, scale)
        row.facts |= spent
        row.put_runs([sum(spent.values())])
    with rows.measure(f"{title}: device alone") as row:
        _rate(row, partial(launch, planned, kernels), images, scale, discard=4)
    for threads in [number for number in _THREADS if number <= usable_cores()]:
        with rows.measure(f"{title}: host and device, {threads} threads") as row:
            _rate_together(row, batch, kernels, threads, scale)


def _facts(planned: Planned) -> dict[str, Any]:
    total = planned.totals[0]
    names = ("num_images", "num_groups", "num_intervals", "num_tables", "blocks", "used", "memory")
    return {name: int(total[name]) for name in names}


def _timed(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _rate(row: Row, call: Callable[[], Any], images: range, scale: Scale, discard: int) -> None:
    kept = [None] * 3  # batches take turns: their memory may be given out again only behind them
    turns = count()

    def next_batch() -> range:
        kept[next(turns) % len(kept)] = call()
        return images

    seconds = _SECONDS if scale.on_gpu else scale.seconds
    measure_rate(row, next_batch, scale, seconds=seconds, discard=discard)


def _rate_together(row: Row, batch: Batch, kernels: Kernels, threads: int, scale: Scale) -> None:
    """Threads plan parts of steps ahead, and one asks for the kernels."""
    ahead = 2 * threads
    planners = [Planner(pinned=scale.on_gpu) for _ in range(ahead)]
    with ThreadPoolExecutor(threads) as pool:
        turns = count()

        def ask() -> Any:
            planner = planners[next(turns) % ahead]
            return pool.submit(planner.plan, batch.files, batch.wanted)

        # Two plans of each planner, all held at once: its arena then has its size, and so do the
        # pools of pinned memory. On an H100 arenas that grew inside the clock cost up to 70 % of the rate.
        grown = [list(pool.map(lambda one: one.plan(batch.files, batch.wanted), planners)) for _ in "ab"]  # fmt: skip
        del grown
        waiting = [ask() for _ in range(ahead - 1)]

        def next_planned() -> Any:
            waiting.append(ask())
            return launch(waiting.pop(0).result(), kernels)

        _rate(row, next_planned, range(len(batch.encoded)), scale, discard=2 * ahead)


def _spent(planned: Planned, kernels: Kernels, scale: Scale) -> dict[str, float]:
    """Milliseconds of each part of a launch on the device, medians of several."""
    parts: dict[str, list[float]] = {}
    for _ in range(_CALLS if scale.on_gpu else 1):
        clocked = _Clocked(kernels)
        finish(scale.device)
        clocked.mark("upload and zeros")
        launched = launch(planned, clocked)
        finish(scale.device)
        for name, spent in clocked.spent().items():
            parts.setdefault(name, []).append(spent)
        del launched
    return {name: round(median(spent), 4) for name, spent in parts.items()}


class _Clocked:
    """Kernels with a clock: each part lasts from its mark to the next one."""

    def __init__(self, kernels: Kernels) -> None:
        self.device, self._kernels = kernels.device, kernels
        self.upload, self.zero, self.download = kernels.upload, kernels.zero, kernels.download
        self._marks: list[tuple[str, Any]] = []

    def mark(self, name: str) -> None:
        """Begin a part."""
        now: Any = time.perf_counter()
        if self.device.type == "cuda":
            make: Any = torch.cuda.Event
            now = make(enable_timing=True)
            now.record()
        self._marks.append((name, now))

    def launch(self, name: str, grid: tuple[int, int], job: "NDArray[np.void]") -> None:
        """Ask for a kernel, which is a part."""
        self.mark(name)
        self._kernels.launch(name, grid, job)
        if name == "resize":
            self.mark("end")

    def spent(self) -> dict[str, float]:
        """Milliseconds of each part; the device has done all."""
        found = {}
        for (name, begin), (_, end) in zip(self._marks, self._marks[1:], strict=False):
            on_gpu = self.device.type == "cuda"
            found[name] = begin.elapsed_time(end) if on_gpu else 1000 * (end - begin)
        return found


def _torchvision(encoded: list[bytes], scale: Scale) -> Callable[[], Any]:
    """Whole images by nvJPEG, as torchvision calls it."""
    from torchvision.io import ImageReadMode, decode_jpeg

    tensors = [torch.frombuffer(bytearray(part), dtype=torch.uint8) for part in encoded]
    return lambda: decode_jpeg(tensors, mode=ImageReadMode.RGB, device=scale.device)
