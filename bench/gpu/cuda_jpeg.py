"""Step: the CUDA JPEG decoder: its bits beside the CPU decoder's, and its rates beside torchvision's."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.gpu.broken import flipped
from bench.gpu.jpeg_batch import JpegBatch
from bench.gpu.photographs import SAMPLINGS, cut_photographs, encode, photographs
from bench.gpu.rows import Row, Rows
from bench.gpu.scale import Scale, host_us, kernel_us, measure_rate
from bench.timing import take_turn
from dali_pipes.decode.cuda_jpeg.batch import Kernels, Planner, launch
from dali_pipes.decode.cuda_jpeg.on_cpu import CpuKernels
from dali_pipes.decode.cuda_jpeg.on_gpu import gpu_kernels
from dali_pipes.jpeg.checkpoints import EVERY
from readers.cores import usable_cores

_THREADS = (1, 4, 8, 16)
_CALLS = 20


def cuda_jpeg(scale: Scale, data: Path, rows: Rows) -> None:
    """Check bits first; then measure full photographs, crops, and larger photographs."""
    began = time.perf_counter()
    kernels: Kernels = gpu_kernels(scale.device) if scale.on_gpu else CpuKernels()
    with rows.measure("compiling the kernels", "s") as row:
        row.put_runs([time.perf_counter() - began])
    for restart, by in ((0, "checkpoints"), (5, "restart markers")):
        encoded = list(_pictures(data, restart))
        for name, side in (("whole", None), ("crops", 96)):
            title = f"all samplings, sizes and turns, {name}, by {by}"
            _check(
                rows, title, JpegBatch(encoded, side, scale.device, 0 if restart else 5), kernels
            )
    _check_damage(kernels, encoded, rows)
    for size, (number, batch_size) in scale.pictures.items():
        encoded = photographs(data, size, min(number, batch_size))
        for name, side in (("whole", None), ("crops of 224", 224)):
            batch = JpegBatch(encoded, side, scale.device, EVERY)
            title = f"{size[1]}x{size[0]}, {name}"
            _check(rows, f"{title}: bits", batch, kernels)
            _measure(rows, title, batch, kernels, scale)
        with rows.measure(f"{size[1]}x{size[0]}, whole: torchvision") as row:
            measure_rate(row, _torchvision(encoded, scale), scale, discard=4)


def _pictures(data: Path, restart: int) -> Iterator[bytes]:
    """Yield small photographs of all samplings, odd sizes, qualities and turns."""
    rng = np.random.default_rng(0)
    for number, image in enumerate(cut_photographs(data, (200, 200), 96)):
        height, width, quality = rng.integers((1, 1, 30), (201, 201, 101)).tolist()
        yield encode(
            image[:height, :width],
            SAMPLINGS[number % len(SAMPLINGS)],
            quality=quality,
            restart=restart,
            orientation=1 + number // len(SAMPLINGS) % 8,
        )


def _check(rows: Rows, name: str, batch: JpegBatch, kernels: Kernels) -> None:
    """Compare every canvas; the largest difference must be 0."""
    with rows.check(name) as row:
        statuses = batch.render(kernels)
        assert not statuses.any(), f"statuses {sorted(set(statuses.tolist()))}"
        gaps, controls = zip(*map(batch.difference, range(len(batch))), strict=True)
        row.facts |= {"images": len(gaps), "differ": sum(gap > 0 for gap in gaps)}
        row.judge(max(gaps), 0, max(controls))


def _check_damage(kernels: Kernels, encoded: list[bytes], rows: Rows) -> None:
    """Damage the codes of every second file: its neighbours are right all the same, and the kernels notice most damage."""
    with rows.check("damaged files among sound ones") as row:
        files = list(encoded)
        files[::2] = [flipped(data, 1 + len(data) // 200) for data in files[::2]]
        batch = JpegBatch(files, None, kernels.device, 0)
        statuses = batch.render(kernels)
        noticed = int((statuses[::2] != 0).sum())
        row.facts |= {"noticed": noticed, "damaged": len(statuses[::2])}
        row.facts["statuses"] = np.unique(statuses).tolist()
        assert not statuses[1::2].any(), "a sound file is refused"
        row.judge(max(batch.difference(at)[0] for at in range(1, len(files), 2)), 0, noticed)


def _measure(rows: Rows, title: str, batch: JpegBatch, kernels: Kernels, scale: Scale) -> None:
    """Measure the host's part, the kernels, the device alone, and all of it with several threads."""
    planner = Planner(pinned=scale.on_gpu)
    plan = partial(batch.plan, planner)
    planned = plan()
    ask = partial(launch, planned, kernels)
    with rows.measure(f"{title}: host", "us/image") as row:
        turns = [take_turn(plan, seconds=scale.seconds, count=lambda _: len(batch)) for _ in "abc"]
        row.put_runs([1e6 / turn.rate for turn in turns])
        total = planned.totals[0]
        for name in ("num_groups", "num_intervals", "num_tables", "blocks", "used", "memory"):
            row.facts[name] = int(total[name])
    with rows.measure(f"{title}: kernels", "ms") as row:
        # A CPU has no kernels of its own, and does all of a launch before it returns.
        spent_us = kernel_us(ask, _CALLS) if scale.on_gpu else {"all": host_us(ask, scale, 2)[0]}
        row.facts["us by kernel"] = spent_us
        row.put_runs([sum(spent_us.values()) / 1000])
    with rows.measure(f"{title}: device alone") as row:
        _rate(row, ask, len(batch), scale, discard=4)
    for threads in [number for number in _THREADS if number <= usable_cores()]:
        with rows.measure(f"{title}: host and device, {threads} threads") as row:
            _rate_together(row, batch, kernels, threads, scale)


def _rate(row: Row, ask: Callable[[], Any], images: int, scale: Scale, discard: int) -> None:
    # Three launches are held: the memory of one may be given out again only after the kernels that use it.
    held: deque[Any] = deque(maxlen=3)
    measure_rate(row, lambda: held.append(ask()), scale, count=lambda _: images, discard=discard)


def _rate_together(
    row: Row, batch: JpegBatch, kernels: Kernels, threads: int, scale: Scale
) -> None:
    """Let threads plan ahead, while one asks for the kernels."""
    planners = [Planner(pinned=scale.on_gpu) for _ in range(2 * threads)]
    turns = cycle(planners)
    with ThreadPoolExecutor(threads) as pool:
        # Two plans of each planner, all held at once: its arena then has its size, and so do the
        # pools of pinned memory. On an H100 arenas that grew inside the clock cost up to 70 % of the rate.
        grown = [list(pool.map(batch.plan, planners)) for _ in "ab"]
        del grown
        waiting = deque(pool.submit(batch.plan, next(turns)) for _ in planners[1:])

        def ask() -> Any:
            waiting.append(pool.submit(batch.plan, next(turns)))
            return launch(waiting.popleft().result(), kernels)

        _rate(row, ask, len(batch), scale, discard=2 * len(planners))


def _torchvision(encoded: list[bytes], scale: Scale) -> Callable[[], Any]:
    """Decode full images by nvJPEG, as torchvision calls it."""
    from torchvision.io import ImageReadMode, decode_jpeg

    tensors = [torch.frombuffer(bytearray(part), dtype=torch.uint8) for part in encoded]
    return partial(decode_jpeg, tensors, mode=ImageReadMode.RGB, device=scale.device)
