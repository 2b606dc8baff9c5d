"""Step that compares the CUDA JPEG decoder's pixels with the CPU decoder's, and its rates with torchvision's."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bench.compare.threads import results_ahead
from bench.gpu.broken import flipped
from bench.gpu.rows import Row, Rows
from bench.gpu.scale import (
    SAMPLINGS,
    Scale,
    cut_photographs,
    encode,
    host_us,
    kernel_us,
    measure_rate,
    photographs,
)
from bench.timing import take_turn
from dali_pipes.decode.cuda_jpeg.batch import (
    Arenas,
    CropRequest,
    Kernels,
    LaunchPlan,
    Planner,
    files_of,
    launch,
)
from dali_pipes.decode.cuda_jpeg.on_cpu import CpuKernels
from dali_pipes.decode.cuda_jpeg.on_gpu import gpu_kernels
from dali_pipes.decode.jpeg_batch import crops_of
from dali_pipes.jpeg.seek_points import EVERY, SeekPoints, find_seek_points, list_known, spans_of
from dali_pipes.jpeg.status import GOOD
from dali_pipes.stages.canvas_memory import addresses_of
from gpu_aug import Normalize, RandomResizedCrop, Recipe
from gpu_aug.resampling.crop_and_resize import resample
from readers import read_header
from readers.cores import usable_cores

_THREADS = (1, 4, 8, 16)
_CALLS = 20


class JpegBatch:
    """A batch of JPEGs with one view, rendered on canvases that are first filled with a colour that no picture has.

    Args:
        encoded: JPEGs.
        side: Height and width of the crops, which are drawn like in a training recipe; None decodes full images.
        device: Device of the canvases.
        every: MCUs between the seek points that the decoder gets; 0 for none.

    Attributes:
        files: The JPEGs with their seek points.
        wanted: The crops of the JPEGs with their canvases, for the kernels.
        crops: These crops as recipes draw them.
        canvases: uint8 [height, width, 3] each, on the device.
    """

    def __init__(
        self, encoded: Sequence[bytes], side: int | None, device: torch.device, every: int
    ) -> None:
        from dali_pipes.decode.jpeg_batch_kernel import RECT

        self.encoded = encoded
        headers = [read_header(data) for data in encoded]
        sizes = np.array([(header.height, header.width) for header in headers], np.int64)
        recipe = Recipe([RandomResizedCrop(side) if side else Normalize()])
        self.crops = crops = recipe.draw(0, 0, np.arange(len(sizes)), sizes).crops
        self.canvases = [
            torch.full((*size, 3), 171, dtype=torch.uint8, device=device)
            for size in crops.canvas.tolist()
        ]
        parts = np.hstack([crops.start, crops.shape], dtype=np.int64).view(RECT)[:, 0]
        places = addresses_of(self.canvases, np.arange(len(sizes)))
        self.wanted = CropRequest(
            sizes, parts, crops_of(crops)[None], places[None], np.array([crops.antialias])
        )
        held = [np.frombuffer(data, np.uint8) for data in encoded]
        known = list_known(_seek_points(encoded, every))
        self.files = files_of(
            spans_of(held), [None] * len(encoded), known.files, (held, known.held)
        )

    def __len__(self) -> int:
        return len(self.encoded)

    def plan(self, planner: Planner) -> LaunchPlan:
        """Run the host's part of decoding, and return the plan of the launch."""
        return planner.plan(self.files, self.wanted)

    def render(self, kernels: Kernels) -> NDArray[np.int32]:
        """Render the canvases; return the status of each image, int32 [n]."""
        planned = self.plan(Planner(Arenas(pinned=kernels.device.type == "cuda")))
        launched = launch(planned, kernels)
        statuses, is_here = planned.statuses.copy(), planned.numbers >= 0
        statuses[is_here] = launched.statuses.cpu().numpy()[planned.numbers[is_here]]
        return statuses

    def difference(self, number: int) -> tuple[int, int]:
        """Compare the canvas with index `number` with the result of OpenCV and torch on the CPU.

        Returns:
            The largest difference and, as a control, the largest difference to the negative image.
        """
        import cv2

        decoded: Any = cv2.imdecode(np.frombuffer(self.encoded[number], np.uint8), cv2.IMREAD_COLOR)
        right = torch.empty((*self.crops.canvas[number].tolist(), 3), dtype=torch.uint8)
        image = torch.from_numpy(np.ascontiguousarray(decoded[..., ::-1]))
        resample(image, self.crops, number, right)
        canvas = self.canvases[number].cpu().short()
        gap, control = (canvas - right.short()).abs(), (canvas - (255 - right).short()).abs()
        return int(gap.max()), int(control.max())


def _seek_points(encoded: Sequence[bytes], every: int) -> list[SeekPoints | None]:
    """Return the seek points of each baseline JPEG; None for other files, and for all files if `every` is 0."""
    if not every:
        return [None] * len(encoded)
    with ThreadPoolExecutor(usable_cores()) as pool:
        found = list(pool.map(lambda data: find_seek_points(data, every), encoded))
    return [SeekPoints(status, every, rows) if status == GOOD else None for status, rows in found]


def cuda_jpeg(scale: Scale, data: Path, rows: Rows) -> None:
    """Run the step: check pixels, then measure full photographs, crops, and larger photographs."""
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
    """Yield small photographs with all chroma samplings, odd sizes, qualities and orientations."""
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
    """Compare every canvas with the CPU's result, and write a row; the largest difference must be 0."""
    with rows.check(name) as row:
        statuses = batch.render(kernels)
        assert not statuses.any(), f"statuses {sorted(set(statuses.tolist()))}"
        gaps, controls = zip(*map(batch.difference, range(len(batch))), strict=True)
        row.facts |= {"images": len(gaps), "differ": sum(gap > 0 for gap in gaps)}
        row.judge(max(gaps), 0, max(controls))


def _check_damage(kernels: Kernels, encoded: list[bytes], rows: Rows) -> None:
    """Damage the codes of every second file; its neighbours must stay right, and the kernels notice most damage."""
    with rows.check("damaged files among sound ones") as row:
        files = list(encoded)
        files[::2] = [flipped(data, 1 + len(data) // 200) for data in files[::2]]
        batch = JpegBatch(files, None, kernels.device, 0)
        statuses = batch.render(kernels)
        noticed = int((statuses[::2] != 0).sum())
        row.facts |= {"noticed": noticed, "damaged": len(statuses[::2])}
        assert not statuses[1::2].any(), "a sound file is refused"
        row.judge(max(batch.difference(at)[0] for at in range(1, len(files), 2)), 0, noticed)


def _measure(rows: Rows, title: str, batch: JpegBatch, kernels: Kernels, scale: Scale) -> None:
    """Measure the host's part, the kernels, the device alone, and everything with several threads."""
    plan = partial(batch.plan, Planner(Arenas(pinned=scale.on_gpu)))
    ask = partial(launch, plan(), kernels)
    with rows.measure(f"{title}: host", "us/image") as row:
        turns = [take_turn(plan, seconds=scale.seconds, count=lambda _: len(batch)) for _ in "abc"]
        row.put_runs([1e6 / turn.rate for turn in turns])
    with rows.measure(f"{title}: kernels", "ms") as row:
        # On a CPU, a launch does all of its work before it returns.
        spent_us = kernel_us(ask, _CALLS) if scale.on_gpu else {"all": host_us(ask, scale, 2)[0]}
        row.facts["us by kernel"] = spent_us
        row.put_runs([sum(spent_us.values()) / 1000])
    with rows.measure(f"{title}: device alone") as row:
        _rate(row, ask, len(batch), scale, discard=4)
    for threads in [number for number in _THREADS if number <= usable_cores()]:
        with rows.measure(f"{title}: host and device, {threads} threads") as row:
            _rate_together(row, batch, kernels, threads, scale)


def _rate(row: Row, ask: Callable[[], Any], images: int, scale: Scale, discard: int) -> None:
    # Holds three launches: the memory of a launch may be reused only after the kernels that use it.
    held: deque[Any] = deque(maxlen=3)
    measure_rate(row, lambda: held.append(ask()), scale, count=lambda _: images, discard=discard)


def _rate_together(
    row: Row, batch: JpegBatch, kernels: Kernels, threads: int, scale: Scale
) -> None:
    """Measure with threads that plan ahead, while one thread launches the kernels."""
    planners = [Planner(Arenas(pinned=scale.on_gpu)) for _ in range(2 * threads)]
    # Two plans of each planner, all held at once, so that the arenas have their final size, and so have the
    # pools of pinned memory. On an H100, arenas that grew during the measurement cost up to 70 % of the rate.
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(batch.plan, planners * 2))
    with closing(results_ahead(batch.plan, cycle(planners), threads, len(planners) - 1)) as plans:
        _rate(
            row, lambda: launch(next(plans), kernels), len(batch), scale, discard=2 * len(planners)
        )


def _torchvision(encoded: list[bytes], scale: Scale) -> Callable[[], Any]:
    """Return a call that decodes full images with nvJPEG through torchvision."""
    from torchvision.io import ImageReadMode, decode_jpeg

    tensors = [torch.frombuffer(bytearray(part), dtype=torch.uint8) for part in encoded]
    return partial(decode_jpeg, tensors, mode=ImageReadMode.RGB, device=scale.device)
