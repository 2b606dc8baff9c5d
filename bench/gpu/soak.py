"""Step: a long run over images of very different sizes, some of them broken."""

import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bench.gpu.broken import broken_files
from bench.gpu.damage import SIZE, load
from bench.gpu.our_loader import Decoder, decoders, loader_for
from bench.gpu.photographs import photographs, write_files
from bench.gpu.rows import Rows
from bench.gpu.scale import Scale, Size, finish
from dali_pipes import Loader
from gpu_aug import Recipe, Resize

GROWTH = {"torch": 16.0, "device": 32.0, "process": 96.0}
"""MiB by which the second half of a run may lie above the first: pools round up, and the heap has holes."""

ROW_GAP = 3.0
"""Mean difference, of 255, of a picture in 8x8 pixels that passes for the same."""

_SECONDS_MAX = 24.0  # for each decoder
_CYCLE = 400  # images, after which the same come again
_WARM = 0.25  # the share of the batches in which every image has been seen
_LOOKS = 100
_MIB = 2**20
_RECIPE = Recipe([Resize((64, 64))])
_BROKEN = ("cut at 50 %", "bits flipped in the scan", "nonsense Huffman tables", "no bytes")

_SIZES: tuple[tuple[Size, int], ...] = (
    ((200, 250), 8),
    ((375, 500), 16),
    ((1080, 1920), 2),
    ((3000, 4000), 1),
)
"""Heights and widths, and how many files of each."""


@dataclass(frozen=True)
class Pictures:
    """The files of the run and the expected images.

    Attributes:
        folder: The files.
        picks: int64 [cycle], which file comes when.
        small: float32 [files, 3, 8, 8] in [0, 1]; not a number for files that nobody decodes.
        is_judged: bool [files]; what decodes though it is broken may be anything.
    """

    folder: Path
    picks: NDArray[np.int64]
    small: torch.Tensor
    is_judged: torch.Tensor


def soak(scale: Scale, data: Path, rows: Rows) -> None:
    """2,000 batches, 1 % of whose files are broken: each row shows the sample its index names, and memory stays flat."""
    with TemporaryDirectory() as root:
        pictures = make_pictures(data, Path(root) / "soak", scale)
        for decoder in decoders():
            looks: list[dict[str, float]] = []
            with rows.check(f"{decoder}: rows are their samples") as row:
                with warnings.catch_warnings(record=True) as said, _opened(scale, pictures, decoder) as loader:  # fmt: skip
                    warnings.simplefilter("always")
                    row.judge(*follow(loader, pictures, scale, looks))
                    row.facts["bad samples"] = len({one.index for one in loader.bad_samples})
                refused = sum("DALI refused" in str(one.message) for one in said)
                row.facts |= {"looks": len(looks), "batches that DALI alone refused": refused}
                assert row.facts["bad samples"], "no bad sample came: the run proves nothing"
            for name, allowed in GROWTH.items() if looks else ():
                with rows.check(f"{decoder}: growth of the {name}") as row:
                    row.unit, series = "MiB", [look[name] for look in looks]
                    row.facts |= {"peak": max(series), "looks": series[:: max(1, len(series) // 10)]}  # fmt: skip
                    leak = [value + 4 * allowed * n / len(series) for n, value in enumerate(series)]
                    row.judge(growth(series), allowed, control=growth(leak))


def make_pictures(data: Path, folder: Path, scale: Scale) -> Pictures:
    """Write JPEGs from 0.05 to 12 megapixels (in a rehearsal smaller ones) and, one in a hundred, broken ones."""
    files: list[bytes] = []
    for (height, width), count in _SIZES:
        small = (height // 8, width // 8)
        files += (
            photographs(data, (height, width), count, seed=count)
            if scale.on_gpu
            else photographs(data, small, 1)
        )
    num_sound = len(files)
    broken = broken_files(photographs(data, SIZE, 1)[0])
    files += [broken[name] for name in _BROKEN]
    picks = np.arange(_CYCLE, dtype=np.int64) % num_sound
    seldom = picks[5 :: 100 if scale.on_gpu else 6]
    seldom[:] = num_sound + np.arange(len(seldom)) % len(_BROKEN)
    judged = load(write_files(folder, files), torch.device("cpu"), 16, "cpu", _RECIPE)
    small_ones = torch.full((len(files), 3, 8, 8), torch.nan)
    for index, image in judged.images.items():
        small_ones[index] = torch.nn.functional.avg_pool2d(image, 8)
    is_judged = small_ones.isnan().flatten(1).any(1) | (torch.arange(len(files)) < num_sound)
    return Pictures(folder, picks, small_ones.to(scale.device), is_judged.to(scale.device))


def _opened(scale: Scale, pictures: Pictures, decoder: Decoder) -> Loader:
    options: dict[str, Any] = {"recipe": _RECIPE, "dtype": torch.float32, "picks": pictures.picks}
    options |= {"on_bad_sample": "replace", "max_bad_samples": 10**6}
    return loader_for(
        scale, pictures.folder, decoder, batch_size=min(scale.batch_size, 32), **options
    )


def follow(
    loader: Any, pictures: Pictures, scale: Scale, looks: list[dict[str, float]]
) -> tuple[float, float, float]:
    """Take batches and look at the memory now and then; nothing waits for the device in between.

    Returns:
        The largest difference of a row from the sample that it claims to be, what is allowed, and the median
        difference from the sample of the next row: of 255.
    """
    every, last = max(1, scale.num_batches // _LOOKS), time.perf_counter() + _SECONDS_MAX
    worst = torch.zeros((), device=scale.device)
    controls = []
    picks = torch.from_numpy(pictures.picks)
    for number, batch in enumerate(islice(loader, scale.num_batches)):
        files = picks[batch.indices % len(picks)].to(scale.device, non_blocking=True)
        found = torch.nn.functional.avg_pool2d(batch.images, 8)
        worst = torch.maximum(worst, _gaps(found, files, pictures).max())
        if number % every == every - 1:
            finish(scale.device)
            controls.append(_gaps(found, files.roll(1), pictures).nanmedian())
            looks.append(read_memory(scale.device))
            if time.perf_counter() > last:
                break
    return float(worst), ROW_GAP, float(torch.stack(controls).median())


def _gaps(found: torch.Tensor, files: torch.Tensor, pictures: Pictures) -> torch.Tensor:
    """Mean difference of each row from a file's picture, of 255; 0 where it may be anything."""
    gaps = (found - pictures.small[files]).abs().mean(dim=(1, 2, 3)) * 255
    return torch.where(pictures.is_judged[files], gaps, 0.0)


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
