"""Step: every row of many batches is its sample while other work saturates the GPU.

nvImageCodec's JPEG engine waits only for its own previous decode, so DALI may decode batch k+1 over what
the resize of batch k still reads (pytorch/torchcodec 1634). That shows as rows of other pictures, when kernels are late.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from bench.gpu.cuda_jpeg_batches import SAMPLINGS, encode
from bench.gpu.our_loader import Decoder, decoders, loader_for
from bench.gpu.photographs import photographs, write_files
from bench.gpu.rows import Row, Rows
from bench.gpu.scale import Scale, Size
from dali_pipes import Loader, available_decoders
from gpu_aug import CenterCrop, Recipe
from readers import open_dataset

CASES: Sequence[tuple[Decoder, dict[str, Any], int]] = (
    ("dali", {"hw_decoder_load": 1.0}, 30_000),
    ("dali", {"hw_decoder_load": 0.65}, 30_000),
    ("cuda", {}, 60_000),
)
"""Decoder, its options, and how many rows are compared; the last one makes up for what the others lack of `ROWS`."""

ROWS = 110_000
"""Rows to compare in all: 100,000 and a reserve."""

WRONG = 3.0
"""Mean difference of a row, of 255, from which it counts as another picture: DALI's rounding gives 0.05, another photograph 59."""

_SIZES: Sequence[Size] = (
    (375, 500), (500, 375), (333, 500), (480, 640), (256, 256), (300, 451), (720, 1280), (240, 320), (427, 640), (600, 800),
)  # fmt: skip
_SIDE = 224
_RECIPE = Recipe([CenterCrop((_SIDE, _SIDE))])
_SECONDS_MAX = 22.0  # for each case
_MATRIX = 8192  # a product takes 2 ms on an H100


def under_load(scale: Scale, data: Path, rows: Rows) -> None:
    """Compare rows with the CPU decoder's, in batches of 64 and 256 in turns."""
    with TemporaryDirectory(prefix="gpu-aug-") as root:
        folder = write_files(Path(root) / "files", _files(data, 40 if scale.on_gpu else 2))
        expected = _expected(folder).to(scale.device)
        total = 0
        for decoder, options, wanted in CASES:
            if decoder not in decoders(scale) and scale.on_gpu:
                rows.leave_out(decoder, str(available_decoders()[decoder]))
                continue
            title = ", ".join([decoder, *(f"{name} {value}" for name, value in options.items())])
            with rows.check(f"{title}, saturated") as row, _saturated(scale):
                missing = ROWS - total if decoder == CASES[-1][0] else 0
                total += _compare(
                    row, scale, folder, expected, decoder, options, max(wanted, missing)
                )
        with rows.check("rows compared in all") as row:
            row.value, row.unit = total, "rows"
            assert total >= 100_000 or not scale.on_gpu, f"{total} rows were compared, 100,000 are wanted"  # fmt: skip


def _files(data: Path, per_size: int) -> list[bytes]:
    """Photographs of all sizes, some with other samplings, in mixed order."""
    import cv2

    files = [one for size in _SIZES for one in photographs(data, size, per_size, seed=size[0])]
    for number in range(0, len(files), 5):
        image: Any = cv2.imdecode(np.frombuffer(files[number], np.uint8), cv2.IMREAD_COLOR)
        sampling = [*SAMPLINGS, "gray"][number // 5 % 6]
        files[number] = encode(image, sampling, restart=0, orientation=1, quality=85)
    return [files[at] for at in np.random.default_rng(0).permutation(len(files))]


def _expected(folder: Path) -> torch.Tensor:
    """The CPU decoder's pixels by index: uint8 [n, 3, side, side]."""
    found = open_dataset(folder)
    images = torch.empty(len(found), 3, _SIDE, _SIDE, dtype=torch.uint8)
    options: dict[str, Any] = {"dtype": torch.uint8, "shuffle": "none", "last_batch": "partial"}
    with Loader(found, _RECIPE, batch_size=50, device="cpu", decoder="cpu", **options) as loader:
        for batch in loader:
            images[batch.indices] = batch.images
    return images


def _compare(
    row: Row,
    scale: Scale,
    folder: Path,
    expected: torch.Tensor,
    decoder: Decoder,
    options: dict[str, Any],
    wanted: int,
) -> int:
    """Fill in a row: the number of wrong rows, and as control how many are wrong beside the next sample; returns the rows compared."""
    wrong, control = (torch.zeros((), dtype=torch.int64, device=scale.device) for _ in "ab")
    worst, compared, began = torch.zeros((), device=scale.device), 0, time.perf_counter()
    usual: dict[str, Any] = {"recipe": _RECIPE, "dtype": torch.uint8, **(options if scale.on_gpu else {})}  # fmt: skip
    for number, batch_size in enumerate((64, 256) if scale.on_gpu else (4, 8)):
        until = (number + 1) / 2
        with loader_for(scale, folder, decoder, batch_size=batch_size, **usual) as loader:
            for batch in loader:
                samples = (batch.indices % len(expected)).to(scale.device)
                gap = _gaps(batch.images, expected[samples])
                wrong += (gap > WRONG).sum()
                worst = torch.maximum(worst, gap.max())
                if number == 0:
                    control += (_gaps(batch.images, expected[samples.roll(1)]) > WRONG).sum()
                compared += len(samples)
                seconds = time.perf_counter() - began
                if compared >= until * (wanted if scale.on_gpu else 32) or seconds > until * _SECONDS_MAX:  # fmt: skip
                    break
            row.facts["bad samples"] = len(loader.bad_samples)
    row.facts |= {"rows": compared, "largest mean difference": round(float(worst), 3)}
    row.unit = "wrong rows"
    row.judge(int(wrong), 0, int(control))
    return compared


def _gaps(images: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Mean difference of each row, of 255."""
    return (images.to(torch.int16) - expected.to(torch.int16)).abs().float().mean((1, 2, 3))


@contextmanager
def _saturated(scale: Scale) -> Iterator[None]:
    """Keep the device busy with matrix products on a stream of their own, so that the loader's kernels are late."""
    if not scale.on_gpu:
        yield
        return
    ended = threading.Event()

    def work() -> None:
        matrix = torch.randn(_MATRIX, _MATRIX, device=scale.device, dtype=torch.bfloat16)
        stream: Any = torch.cuda.Stream(scale.device)  # type: ignore[no-untyped-call]
        with torch.cuda.stream(stream):
            while not ended.is_set():
                for _ in range(8):
                    matrix @ matrix
                stream.synchronize()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
