"""Step: every row of many batches is its sample while other work saturates the GPU.

nvImageCodec's JPEG engine waits only for its own previous decode, so DALI may decode batch k+1 over what
the resize of batch k still reads (pytorch/torchcodec 1634). That shows as rows of other pictures, when kernels are late.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.gpu.contenders import Decoder, decoders, endless, loader_for
from bench.gpu.photographs import SAMPLINGS, Size, cut_photographs, encode, temporary_files
from bench.gpu.rows import Row, Rows
from bench.gpu.scale import Scale
from bench.timing import take_turn
from dali_pipes import Batch, Loader, available_decoders
from gpu_aug import CenterCrop, Recipe
from readers import open_dataset

CASES: Sequence[tuple[Decoder, Mapping[str, Any], int]] = (
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
    """Compare rows with the CPU decoder's, in batches of 64 and then of 256."""
    with temporary_files(_files(data, 40 if scale.on_gpu else 2)) as folder:
        expected = _expected(folder).to(scale.device)
        total = 0
        for number, (decoder, options, wanted) in enumerate(CASES, 1):
            if decoder not in decoders(scale) and scale.on_gpu:
                rows.leave_out(decoder, available_decoders()[decoder])
                continue
            title = ", ".join([decoder, *(f"{name} {value}" for name, value in options.items())])
            with rows.check(f"{title}, saturated") as row, _saturated(scale):
                if number == len(CASES):
                    wanted = max(wanted, ROWS - total)
                compared = _Comparison(expected, row)
                for batch_size in (64, 256) if scale.on_gpu else (4, 8):
                    # A CPU has no JPEG engine to share.
                    usual = dict(options) if scale.on_gpu else {}
                    usual |= {"recipe": _RECIPE, "dtype": torch.uint8, "batch_size": batch_size}
                    with loader_for(scale, folder, decoder, **usual) as loader:
                        total += compared.take(loader, (wanted if scale.on_gpu else 32) // 2)
                compared.judge()
        with rows.check("rows compared in all") as row:
            row.value, row.unit = total, "rows"
            assert total >= 100_000 or not scale.on_gpu, f"{total} rows were compared, 100,000 are wanted"  # fmt: skip


def _files(data: Path, per_size: int) -> list[bytes]:
    """Encode photographs of all sizes, some with other samplings, in mixed order."""
    files: list[bytes] = []
    for size in _SIZES:
        for number, image in enumerate(cut_photographs(data, size, per_size, seed=size[0])):
            sampling = SAMPLINGS[len(files) // 5 % len(SAMPLINGS)] if number % 5 == 0 else "4:2:0"
            files.append(encode(image, sampling))
    return [files[at] for at in np.random.default_rng(0).permutation(len(files))]


def _expected(folder: Path) -> torch.Tensor:
    """Return the CPU decoder's pixels by index: uint8 [n, 3, side, side]."""
    found = open_dataset(folder)
    images = torch.empty(len(found), 3, _SIDE, _SIDE, dtype=torch.uint8)
    options: dict[str, Any] = {"dtype": torch.uint8, "shuffle": "none", "last_batch": "partial"}
    with Loader(found, _RECIPE, batch_size=50, device="cpu", decoder="cpu", **options) as loader:
        for batch in loader:
            images[batch.indices] = batch.images
    return images


class _Comparison:
    """Counts wrong rows on the device, so that no batch is waited for.

    Args:
        expected: Right pixels by index: uint8 [n, 3, side, side].
        row: Gets the counts.
    """

    def __init__(self, expected: torch.Tensor, row: Row) -> None:
        self._expected, self._row = expected, row
        # Wrong rows, rows that are wrong beside the next sample, and the largest mean difference.
        self._counts = torch.zeros(3, device=expected.device)
        row.facts |= {"rows": 0, "bad samples": 0}

    def take(self, loader: Loader, rows_max: int) -> int:
        """Compare some rows of a loader, until half of a case's time is over; return their number."""
        turn = take_turn(
            partial(next, endless(loader)),
            seconds=_SECONDS_MAX / 2,
            items_max=rows_max,
            count=lambda batch: len(batch.indices),
            work=self._compare,
        )
        self._row.facts["rows"] += turn.items
        self._row.facts["bad samples"] += len(loader.bad_samples)
        return turn.items

    def judge(self) -> None:
        """Fill in the row: the number of wrong rows; the control is how many are wrong beside the next sample."""
        wrong, control, largest = self._counts.tolist()
        self._row.facts["largest mean difference"] = round(largest, 3)
        self._row.unit = "wrong rows"
        self._row.judge(int(wrong), 0, int(control))

    def _compare(self, batch: Batch) -> None:
        samples = (batch.indices % len(self._expected)).to(self._expected.device)
        gaps = _gaps(batch.images, self._expected[samples])
        controls = _gaps(batch.images, self._expected[samples.roll(1)])
        self._counts[0] += (gaps > WRONG).sum()
        self._counts[1] += (controls > WRONG).sum()
        self._counts[2] = torch.maximum(self._counts[2], gaps.max())


def _gaps(images: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Return the mean difference of each row, of 255."""
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
