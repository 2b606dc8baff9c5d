"""Steps that compare each row of a batch with its sample: with broken files, and while other work saturates the GPU.

nvImageCodec's JPEG engine waits only for its own previous decode, so DALI may overwrite the memory of batch k with
batch k+1 while a resize still reads it (pytorch/torchcodec 1634). If kernels are late, rows then show other pictures.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.gpu.broken import broken_files
from bench.gpu.contenders import Decoder, decoders, endless, loader_for
from bench.gpu.rows import Row, Rows
from bench.gpu.scale import (
    SAMPLINGS,
    Scale,
    Size,
    cut_photographs,
    encode,
    photographs,
    temporary_files,
)
from bench.timing import take_turn
from dali_pipes import Batch, Loader, available_decoders
from gpu_aug import CenterCrop, HorizontalFlip, RandomResizedCrop, Recipe
from readers import open_dataset

SIZE = (160, 213)
"""Height and width of the sound pictures."""

_TRAINING = Recipe([RandomResizedCrop(64), HorizontalFlip()])
_CPU = torch.device("cpu")
CASES: Sequence[tuple[Decoder, Mapping[str, Any], int]] = (
    ("dali", {"hw_decoder_load": 1.0}, 30_000),
    ("dali", {"hw_decoder_load": 0.65}, 30_000),
    ("cuda", {}, 60_000),
)
"""Decoder, its options, and the count of rows to compare; the last case compares the rest up to `ROWS`."""

ROWS = 110_000
"""Total count of rows to compare: 100,000 and a reserve."""

WRONG = 3.0
"""Mean difference of a row, of 255, from which it counts as another picture: DALI's rounding causes 0.05, another
photograph 59."""

_SIZES: Sequence[Size] = (
    (375, 500),
    (500, 375),
    (333, 500),
    (480, 640),
    (256, 256),
    (300, 451),
    (720, 1280),
    (240, 320),
    (427, 640),
    (600, 800),
)
_SIDE = 224
_RECIPE = Recipe([CenterCrop((_SIDE, _SIDE))])
_SECONDS_MAX = 22.0  # per case
_MATRIX = 8192  # a matrix product of this size takes 2 ms on an H100


@dataclass
class Run:
    """The images and bad samples that a loader returned for a folder.

    Attributes:
        images: [3, height, width] on the CPU, by sample index.
        bad: Index and stage of each bad sample, in order of discovery.
    """

    images: dict[int, torch.Tensor]
    bad: list[tuple[int, str]] = field(default_factory=list)


def damage(scale: Scale, data: Path, rows: Rows) -> None:
    """Load the same batch with and without broken files, by decoder. Single kinds of damage are covered by tests."""
    sound = photographs(data, SIZE, 24)
    broken = list(broken_files(sound[0]).values())
    damaged = set(range(len(broken)))
    with (
        temporary_files([*broken, *sound]) as mixed,
        temporary_files([sound[0]] * len(broken) + sound) as whole,
    ):
        expected = load(mixed, _CPU, "cpu")
        for decoder in decoders(scale):
            undamaged = load(whole, scale.device, decoder)
            with rows.check(f"{decoder}: no file is broken") as row:
                judge(load(whole, scale.device, decoder), undamaged, undamaged, damaged, row)
            with rows.check(f"{decoder}: all kinds in one batch") as row:
                judge(load(mixed, scale.device, decoder), expected, undamaged, damaged, row)


def load(
    folder: Path,
    device: torch.device,
    decoder: Decoder,
    recipe: Recipe = _TRAINING,
    dtype: torch.dtype = torch.float32,
) -> Run:
    """Load a folder as one batch, in the folder's order, and return its images and bad samples."""
    dataset = open_dataset(folder)
    options: dict[str, Any] = {"shuffle": "none", "last_batch": "partial", "dtype": dtype}
    options |= {"on_bad_sample": "skip", "max_bad_samples": 10**6, "engine": "fused"}
    options |= {"decoder": decoder, "device": device, "batch_size": len(dataset)}
    images: dict[int, torch.Tensor] = {}
    with Loader(dataset, recipe, **options) as loader:
        for batch in loader:
            images |= dict(zip(batch.indices.tolist(), batch.images.cpu(), strict=True))
        return Run(images, [(one.index, one.stage) for one in loader.bad_samples])


def judge(actual: Run, expected: Run, sound: Run, damaged: set[int], row: Row) -> None:
    """Fill in a row: the largest difference, of 255, that damage causes in undamaged pictures.

    Args:
        actual: Result of the device for a folder with broken files.
        expected: Result of the CPU for the same folder.
        sound: Result of the device for the same folder without damage.
        damaged: The indices of the broken files.
        row: The row of results, written.

    Raises:
        AssertionError: A verdict differs from the CPU's, a sample is missing, or an undamaged picture differs.
    """
    row.facts["verdicts"] = sorted({stage for _, stage in expected.bad}) or ["decodes"]
    assert actual.bad == expected.bad, f"bad samples {actual.bad} instead of {expected.bad}"
    remaining = sound.images.keys() - {index for index, _ in expected.bad}
    assert actual.images.keys() == remaining, (
        f"samples {sorted(actual.images)} came instead of {sorted(remaining)}"
    )
    # A broken file that decodes may have any pixels; that is only reported.
    row.facts["broken pictures differ from the CPU's by"] = max(
        (_gap(actual.images[n], expected.images[n]) for n in damaged & remaining), default=0.0
    )
    beside = sorted(remaining - damaged)
    gaps = [_gap(actual.images[n], sound.images[n]) for n in beside]
    others = [
        _gap(actual.images[n], sound.images[m])
        for n, m in zip(beside, beside[1:] + beside[:1], strict=True)
    ]
    row.judge(max(gaps), 0.0, control=min(others))


def _gap(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).abs().max()) * 255


def under_load(scale: Scale, data: Path, rows: Rows) -> None:
    """Compare rows with those of the CPU decoder, in batches of 64 and then of 256."""
    with temporary_files(_files(data, 40 if scale.on_gpu else 2)) as folder:
        images = load(folder, _CPU, "cpu", _RECIPE, torch.uint8).images
        expected = torch.stack([images[n] for n in range(len(images))]).to(scale.device)
        total = 0
        for number, (decoder, options, wanted) in enumerate(CASES, 1):
            if decoder not in decoders(scale) and scale.on_gpu:
                rows.leave_out(decoder, available_decoders()[decoder])
                continue
            title = ", ".join([decoder, *(f"{name} {value}" for name, value in options.items())])
            with rows.check(f"{title}, saturated", rows=0) as row, _saturated(scale):
                if number == len(CASES):
                    wanted = max(wanted, ROWS - total)
                # Count of wrong rows, of rows that differ from the next sample, and the largest mean difference: on the
                # device, so that the loop waits for no batch.
                counts = torch.zeros(3, device=scale.device)
                compare = partial(_compare, expected, counts)
                for batch_size in (64, 256) if scale.on_gpu else (4, 8):
                    # A CPU has no JPEG engine.
                    usual = dict(options) if scale.on_gpu else {}
                    usual |= {"recipe": _RECIPE, "dtype": torch.uint8, "batch_size": batch_size}
                    with loader_for(scale, folder, decoder, **usual) as loader:
                        turn = take_turn(
                            partial(next, endless(loader)),
                            seconds=_SECONDS_MAX / 2,
                            items_max=(wanted if scale.on_gpu else 32) // 2,
                            count=lambda batch: len(batch.indices),
                            work=compare,
                        )
                    row.facts["rows"] += turn.items
                total += row.facts["rows"]
                wrong, control, largest = counts.tolist()
                row.facts["largest mean difference"] = round(largest, 3)
                row.judge(int(wrong), 0, int(control), unit="wrong rows")
        with rows.check("rows compared in all") as row:
            row.value, row.unit = total, "rows"
            assert total >= 100_000 or not scale.on_gpu, (
                f"{total} rows were compared, 100,000 are wanted"
            )


def _compare(expected: torch.Tensor, counts: torch.Tensor, batch: Batch) -> None:
    """Add to `counts` the wrong rows of a batch and, as a control, the rows that differ from the next sample."""
    samples = (batch.indices % len(expected)).to(expected.device)
    gaps = _gaps(batch.images, expected[samples])
    counts[0] += (gaps > WRONG).sum()
    counts[1] += (_gaps(batch.images, expected[samples.roll(1)]) > WRONG).sum()
    counts[2] = torch.maximum(counts[2], gaps.max())


def _files(data: Path, per_size: int) -> list[bytes]:
    """Return encoded photographs of all sizes, some with other chroma samplings, in mixed order."""
    files: list[bytes] = []
    for size in _SIZES:
        for number, image in enumerate(cut_photographs(data, size, per_size, seed=size[0])):
            sampling = SAMPLINGS[len(files) // 5 % len(SAMPLINGS)] if number % 5 == 0 else "4:2:0"
            files.append(encode(image, sampling))
    return [files[at] for at in np.random.default_rng(0).permutation(len(files))]


def _gaps(images: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Return for each row the mean difference between image and expected image, on the scale of 0 to 255."""
    return (images.to(torch.int16) - expected.to(torch.int16)).abs().float().mean((1, 2, 3))


@contextmanager
def _saturated(scale: Scale) -> Iterator[None]:
    """Keep the device busy with matrix products on a separate stream, so that the loader's kernels are late."""
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
