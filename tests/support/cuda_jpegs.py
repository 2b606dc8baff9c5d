"""Batches of JPEGs for the GPU's decoder, rendered by its kernels on the CPU, and what the CPU's own decode stage makes of them."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.decode.cuda_jpeg import batch
from dali_pipes.decode.cuda_jpeg.batch import (
    Arenas,
    CropRequest,
    Files,
    Launched,
    LaunchPlan,
    Planner,
    launch,
)
from dali_pipes.decode.cuda_jpeg.on_cpu import CpuKernels
from dali_pipes.decode.jpeg_batch_kernel import CROP, ENCODED, RECT, render_rows
from dali_pipes.jpeg.progressive.memory import scratch_bytes as decoding_bytes
from dali_pipes.jpeg.seek_points import SeekPoints, find_seek_points, list_known, spans_of
from dali_pipes.jpeg.status import GOOD
from gpu_aug.resampling.bilinear import scratch_bytes as resizing_bytes
from readers import read_header
from tests.support.jpegs import SAMPLINGS, encode, picture, turned

Pixels = NDArray[np.uint8]
Cut = tuple[int, int, int, int, int, int, int, int]
"""Top, left, height, width, height and width after resizing, top and left on the canvas."""


@cache
def kernels(*flags: str) -> CpuKernels:
    """The kernels, compiled by g++ with further flags."""
    return CpuKernels(flags)


@contextmanager
def on_the_cpu() -> Iterator[None]:
    """Loaders that are asked for decoder="cuda" take it on the CPU."""
    from dali_pipes.arguments import setup

    choose = setup.choose

    def choose_here(device, decoder, *rest):  # type: ignore[no-untyped-def]
        if decoder != "cuda":
            return choose(device, decoder, *rest)
        return replace(choose("cpu", "cpu", *rest), decoder="cuda")

    with (
        patch.object(setup, "choose", choose_here),
        patch("dali_pipes.decode.cuda_jpeg.on_gpu.gpu_kernels", lambda _device: kernels()),
    ):
        yield


def baseline_jpeg(number: int, seed: int = 0) -> bytes:
    """Return a baseline JPEG; its kind, size and turn depend on its number."""
    sampling = [*SAMPLINGS, "gray"][number % 6]
    image = picture(60 + 7 * number % 50, 50 + 11 * number % 70, number + seed)
    return turned(encode(image, sampling, restart=4 * (number % 3)), 1 + number % 8)


def write_baseline_jpegs(root: Path, count: int) -> Path:
    """Write such files in three classes; return their folder."""
    for number in range(count):
        path = root / str(number % 3) / f"{number:03}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(baseline_jpeg(number))
    return root


def size_of(data: bytes) -> tuple[int, int]:
    """Height and width of the upright image."""
    header = read_header(data)
    return header.height, header.width


def whole(data: bytes) -> Cut:
    """The whole image as it is."""
    height, width = size_of(data)
    return 0, 0, height, width, height, width, 0, 0


def files_of(
    encoded: Sequence[bytes], every: int = 0, offsets: Sequence[NDArray[np.int64]] = ()
) -> Files:
    """Files, with seek points every so many MCUs, and with known offsets of restart intervals."""
    known: list[SeekPoints | None] = [None] * len(encoded)
    if every:
        found = [find_seek_points(data, every) for data in encoded]
        known = [SeekPoints(status, every, rows) if status == GOOD else None for status, rows in found]  # fmt: skip
    return list_files(encoded, offsets or [None] * len(encoded), known)


def list_files(
    encoded: Sequence[bytes],
    offsets: Sequence[NDArray[np.int64] | None],
    seek_points: Sequence[SeekPoints | None],
) -> Files:
    """Files of which this is known; see `batch.files_of`."""
    held = [np.frombuffer(data, np.uint8) for data in encoded]
    known = list_known(seek_points)
    return batch.files_of(spans_of(held), offsets, known.files, (held, known.held))


def wanted_of(
    sizes: Sequence[tuple[int, int]],
    cuts: Sequence[Sequence[Cut]],
    canvases: Sequence[Sequence[torch.Tensor]],
    *,
    antialias: bool = True,
) -> CropRequest:
    """What is wanted: cuts and canvases of each view."""
    crops = np.array(cuts, np.int64).view(CROP)[..., 0]
    top, left = crops["top"].min(axis=0), crops["left"].min(axis=0)
    parts = np.zeros(len(sizes), RECT)
    parts["top"], parts["left"] = top, left
    parts["height"] = (crops["top"] + crops["height"]).max(axis=0) - top
    parts["width"] = (crops["left"] + crops["width"]).max(axis=0) - left
    places = [[(one.data_ptr(), *one.shape[:2]) for one in view] for view in canvases]
    return CropRequest(
        np.array(sizes, np.int64),
        parts,
        crops,
        np.array(places, np.int64),
        np.full(len(crops), antialias),
    )


def empty_canvases(shapes: Sequence[tuple[int, int]]) -> list[torch.Tensor]:
    """Canvases full of a colour that no test expects."""
    return [torch.full((*shape, 3), 171, dtype=torch.uint8) for shape in shapes]


def plan(files: Files, wanted: CropRequest) -> LaunchPlan:
    """Plan a batch for the CPU."""
    return Planner(Arenas(pinned=False)).plan(files, wanted)


def render(files: Files, wanted: CropRequest) -> tuple[NDArray[np.int32], Launched]:
    """Render a batch by the kernels on the CPU; a status of each image, and what was launched."""
    launched = launch(plan(files, wanted), kernels())
    return statuses_of(launched), launched


def statuses_of(launched: Launched) -> NDArray[np.int32]:
    """What became of each image: the host's verdict, or the kernels'."""
    planned = launched.planned
    statuses, here = planned.statuses.copy(), planned.numbers >= 0
    statuses[here] = launched.statuses.numpy()[planned.numbers[here]]
    return statuses


def render_whole(
    encoded: Sequence[bytes], every: int = 0
) -> tuple[NDArray[np.int32], list[torch.Tensor]]:
    """Return the statuses and the pictures of full images, each at its own size."""
    sizes = [size_of(data) for data in encoded]
    canvases = empty_canvases(sizes)
    wanted = wanted_of(sizes, [[whole(data) for data in encoded]], [canvases])
    return render(files_of(encoded, every), wanted)[0], canvases


def render_on_cpu(
    files: Files, wanted: CropRequest
) -> tuple[NDArray[np.int32], list[list[torch.Tensor]]]:
    """The statuses and the canvases of each view by the CPU's decode stage."""
    shapes = wanted.canvases[..., 1:].tolist()
    canvases = [empty_canvases([tuple(shape) for shape in view]) for view in shapes]
    places = wanted.canvases.copy()
    places[..., 0] = [[one.data_ptr() for one in view] for view in canvases]
    names = ("height", "width", "resize_height", "resize_width")
    sides = [int(wanted.crops[name].max()) for name in names]
    largest = int((wanted.parts["height"] * wanted.parts["width"]).max()) * 3
    needed = decoding_bytes(int(wanted.sizes.max())), largest, resizing_bytes(*sides)
    encoded = np.zeros(len(files.files), ENCODED)
    for name in ("address", "num_bytes", "first_offset", "last_offset"):
        encoded[name] = files.files[name]
    statuses = np.empty(len(encoded), np.int32)
    render_rows(
        encoded,
        wanted.sizes,
        wanted.parts,
        np.ones(len(encoded), np.int64),
        files.offsets,
        wanted.crops,
        places,
        wanted.antialias,
        tuple(np.zeros(size, np.uint8) for size in needed),  # new memory of the decoder is 0
        statuses,
    )
    return statuses, canvases


def assert_canvases(canvases: Iterable[torch.Tensor], expected: Iterable[Any]) -> None:
    """Canvases hold these pictures, to the bit."""
    for canvas, pixels in zip(canvases, expected, strict=True):
        np.testing.assert_array_equal(canvas.cpu().numpy(), pixels)
