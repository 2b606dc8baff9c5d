"""Steps: does the loop wait for the device, does memory grow, do streams race?"""

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from bench.compare.images import Repeated
from bench.gpu_visit.memory import watch, write_pictures
from bench.gpu_visit.photographs import photographs
from bench.gpu_visit.scale import Notes, Scale, Size, finish
from bench.gpu_visit.waits import look
from dali_pipes import Batch, Loader, available_decoders
from gpu_aug import Recipe
from readers import open_dataset

Decoder = Literal["dali", "cpu"]


def decoders() -> list[Decoder]:
    """Those that are installed."""
    names: tuple[Decoder, ...] = ("dali", "cpu")
    return [name for name in names if not available_decoders()[name]]


def loader_for(scale: Scale, data: Path, decoder: Decoder, **options: Any) -> Loader:
    """Our loader with the fused engine, as people train with it; `picks` says what an endless epoch repeats."""
    usual: dict[str, Any] = {"batch_size": min(scale.batch_size, 64), "engine": "fused"}
    recipe = options.pop("recipe", None) or Recipe.imagenet_train_jitter(size=scale.side)
    found = open_dataset(data)
    picks: NDArray[np.int64] | None = options.pop("picks", None)
    # Without an end, at which pipelines drain.
    dataset = Repeated(found, np.arange(len(found)) if picks is None else picks)
    usual |= {"device": scale.device, "decoder": decoder, "dtype": torch.bfloat16}
    return Loader(dataset, recipe, **{**usual, **options})


def endless(loader: Loader) -> Iterator[Batch]:
    """One epoch after the other."""
    while True:
        yield from loader


def write_files(folder: Path, contents: Mapping[str, bytes] | Sequence[bytes]) -> Path:
    """Write files by name, or JPEGs whose names are in their order, into a folder that is made."""
    folder.mkdir(parents=True)
    if not isinstance(contents, Mapping):
        contents = {f"{number:05d}.jpg": content for number, content in enumerate(contents)}
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return folder


_SMALL: Size = (96, 128)
_SIDE = 64


def races(scale: Scale, data: Path, notes: Notes) -> None:
    """The same losses whether or not the loop waits for the device after each batch."""
    with TemporaryDirectory() as root:
        folder = write_files(Path(root) / "small", photographs(data, _SMALL, 64))
        for decoder in decoders():
            with notes.attempt(decoder) as row:
                _race(scale, folder, decoder, row)
    verdicts = {
        name: row.get("error") or f"equal over {row['batches']} batches"
        for name, row in notes.found.items()
    }
    notes.put(headline=f"losses with and without waiting: {verdicts}")


def _race(scale: Scale, folder: Path, decoder: Decoder, row: dict[str, Any]) -> None:
    """Fill in a row.

    Raises:
        AssertionError: The losses differ, or those of other draws do not.
    """
    count = 500 if scale.on_gpu else 6
    began = time.perf_counter()
    patient = losses(scale, folder, decoder, waits=True, count=count)
    hasty = [losses(scale, folder, decoder, waits=False, count=count) for _ in range(2)]
    row["seconds"] = round(time.perf_counter() - began, 1)
    row["batches"], row["losses"] = len(patient), patient[:3]
    control = losses(scale, folder, decoder, waits=True, count=count // 20 + 2, seed=1)
    row["control differs"] = not set(control) & set(patient)
    for number, other in enumerate(hasty):
        apart = [step for step, (a, b) in enumerate(zip(patient, other, strict=True)) if a != b]
        row[f"steps that differ in run {number}"] = len(apart)
        if apart:
            first = apart[0]
            raise AssertionError(
                f"without waiting {len(apart)} of {count} losses differ, first at step {first}: "
                f"{other[first]!r} instead of {patient[first]!r}"
            )
    assert row["control differs"], "other draws gave the same losses: the comparison sees nothing"


def losses(
    scale: Scale, folder: Path, decoder: Decoder, *, waits: bool, count: int, seed: int = 0
) -> list[float]:
    """Losses of a small model that learns, in a loop that gives memory back and takes it again all the time."""
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(3 * 49, 64, dtype=torch.float64, generator=generator) / 10
    weights = weights.to(scale.device)
    found = []
    options: dict[str, Any] = {"batch_size": min(scale.batch_size, 32), "seed": seed}
    recipe = Recipe.imagenet_train_jitter(size=_SIDE)
    with loader_for(scale, folder, decoder, recipe=recipe, **options) as loader:
        for batch in islice(endless(loader), count):
            if waits:
                finish(scale.device)
            pooled = torch.nn.functional.adaptive_avg_pool2d(batch.images.double(), 7).flatten(1)
            answers = pooled @ weights
            found.append(answers.square().mean())
            weights = weights - 0.01 * (pooled.T @ answers) / answers.numel()
            shape = batch.images.shape
            del batch, pooled, answers
            # Where a kernel of the loader still writes to memory that is given out again, this shows.
            litter = [torch.full(shape, torch.nan, device=scale.device) for _ in range(4)]
            del litter
    return torch.stack(found).tolist()


def synchronisations(scale: Scale, data: Path, notes: Notes) -> None:
    """Does the thread of the training loop wait for the device, by three witnesses?"""
    for decoder in decoders():
        with notes.attempt(decoder) as row, loader_for(scale, data, decoder) as loader:
            look(endless(loader), scale.device, row)
    verdicts = {
        name: row.get("error") or row["waits of the loop per batch"] or "none"
        for name, row in notes.found.items()
    }
    notes.put(headline=f"host waits in the loop: {verdicts}"[:400])


def memory(scale: Scale, data: Path, notes: Notes) -> None:
    """Memory of the device and of the process over many batches of images of very different sizes."""
    with TemporaryDirectory() as root:
        folder = Path(root) / "sizes"
        picks = write_pictures(data, folder, scale)
        for decoder in decoders():
            with notes.attempt(decoder) as row:
                watch(partial(loader_for, scale, folder, decoder, picks=picks), scale, row)
    found = {
        name: row.get("error") or f"flat over {row['batches']} batches, peak {row['peak, MiB']}"
        for name, row in notes.found.items()
        if isinstance(row, dict)
    }
    notes.put(headline=f"{found}"[:500])
