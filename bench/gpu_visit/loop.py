"""Steps: does the loop wait for the device, does memory grow, do streams race, do devices agree?"""

import resource
import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from bench.batch import RECIPE
from bench.gpu_visit.scale import Notes, Scale, finish
from bench.images import Repeated
from bench.pictures import load_pictures
from dali_pipes import Batch, Loader, available_decoders
from gpu_aug import Recipe, compile_engine
from readers import open_dataset

Decoder = Literal["dali", "cpu"]


def decoders() -> list[Decoder]:
    """Those that are installed."""
    names: tuple[Decoder, ...] = ("dali", "cpu")
    return [name for name in names if not available_decoders()[name]]


def loader_for(scale: Scale, data: Path, decoder: Decoder, **options: Any) -> Loader:
    """Our loader with the fused engine, as people train with it."""
    usual: dict[str, Any] = {"batch_size": min(scale.batch_size, 64), "engine": "fused"}
    recipe = options.pop("recipe", None) or Recipe.imagenet_train_jitter(size=scale.side)
    found = open_dataset(data)
    dataset = Repeated(found, np.arange(len(found)))  # without an end, at which pipelines drain
    return Loader(dataset, recipe, device=scale.device, decoder=decoder, **{**usual, **options})


def endless(loader: Loader) -> Iterator[Batch]:
    """One epoch after the other."""
    while True:
        yield from loader


def synchronisations(scale: Scale, data: Path, notes: Notes) -> None:
    """Calls that wait for the device, by torch's own alarm and by a trace of all threads."""
    for decoder in decoders():
        with notes.attempt(decoder) as row, loader_for(scale, data, decoder) as loader:
            batches = endless(loader)
            for _ in islice(batches, 4):
                pass
            if scale.on_gpu:
                torch.cuda.set_sync_debug_mode("error")
            try:
                for batch in islice(batches, 8):
                    batch.images.float().mean()
                row["torch's alarm"] = "silent"
            finally:
                if scale.on_gpu:
                    torch.cuda.set_sync_debug_mode("default")
            row["trace"] = _trace(batches, scale)
    notes.put(headline="; ".join(f"{name}: {row}" for name, row in notes.found.items())[:300])


def _trace(batches: Iterator[Batch], scale: Scale, count: int = 10) -> dict[str, float]:
    """Calls per batch that launch, copy or wait."""
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if scale.on_gpu else [])]
    with profile(activities=activities) as trace:
        for batch in islice(batches, count):
            batch.images.mean(dtype=torch.float32)
    calls = Counter[str]()
    for event in trace.events():
        if event.name.startswith(("cuda", "cu")) or event.name.startswith("Memcpy"):
            calls[event.name] += 1
    return {name: number / count for name, number in calls.most_common(30)}


def memory(scale: Scale, data: Path, notes: Notes) -> None:
    """Memory of the device and of the process over many batches."""
    for decoder in decoders():
        with notes.attempt(decoder) as row:
            row["batch_size"] = min(scale.batch_size, 32)
            row["MiB of torch, of the device, of the process"] = seen = []
            with loader_for(scale, data, decoder, batch_size=row["batch_size"]) as loader:
                began = time.perf_counter()
                every = max(1, scale.num_batches // 10)
                for number, batch in enumerate(islice(endless(loader), scale.num_batches + 1)):
                    if number % every == 0:
                        seen.append(_memory(scale))
                        notes.put(**{decoder: row})
                    del batch
                row["seconds"] = round(time.perf_counter() - began, 1)
            row["growth after a tenth"] = [last - first for first, last in zip(seen[1], seen[-1], strict=True)]  # fmt: skip
    growths = {name: row.get("growth after a tenth", row.get("error")) for name, row in notes.found.items()}  # fmt: skip
    notes.put(headline=f"MiB grown (torch, device, process): {growths}")


def _memory(scale: Scale) -> list[int]:
    process = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    if not scale.on_gpu:
        return [0, 0, process]
    free, total = torch.cuda.mem_get_info(scale.device)
    return [torch.cuda.memory_reserved(scale.device) >> 20, (total - free) >> 20, process]


def races(scale: Scale, data: Path, notes: Notes) -> None:
    """The same losses whether or not the loop waits for the device after each batch."""
    for decoder in decoders():
        with notes.attempt(decoder) as row:
            patient = _losses(scale, data, decoder, waits=True)
            hasty = [_losses(scale, data, decoder, waits=False) for _ in range(2)]
            row["losses"] = patient[:3]
            row["equal"] = [patient == losses for losses in hasty]
            row["batches"] = len(patient)
            # Negative control: other draws give other losses.
            row["control differs"] = patient != _losses(scale, data, decoder, waits=True, seed=1)
    verdicts = {name: row.get("equal", row.get("error")) for name, row in notes.found.items()}
    notes.put(headline=f"equal with and without waiting: {verdicts}")


def _losses(
    scale: Scale, data: Path, decoder: Decoder, *, waits: bool, seed: int = 0
) -> list[float]:
    torch.manual_seed(0)
    weights = torch.randn(3 * 49, 64, device=scale.device, dtype=torch.float64) / 10
    losses = []
    with loader_for(scale, data, decoder, seed=seed) as loader:
        for batch in islice(endless(loader), 24 if scale.on_gpu else 3):
            if waits:
                finish(scale.device)
            scratch = [torch.full_like(batch.images, float(value)) for value in range(4)]
            pooled = torch.nn.functional.adaptive_avg_pool2d(batch.images.double(), 7)
            losses.append((pooled.flatten(1) @ weights).square().mean() + scratch[0].sum())
            del (
                scratch,
                batch,
                pooled,
            )  # memory that is given out again while the loader works ahead
    return torch.stack(losses).tolist()


def agreement(scale: Scale, data: Path, notes: Notes) -> None:
    """The fused engine on the device against itself on the CPU, in units of 1/255."""
    pictures = torch.from_numpy(load_pictures(str(data), min(scale.batch_size, 32), scale.side))
    num, height, width = pictures.shape[:3]
    sizes = np.tile(np.array([height, width], np.int64), (num, 1))
    worst = 0.0
    for name, recipe in {"batch stage": RECIPE, "jitter": Recipe.imagenet_train_jitter()}.items():
        with notes.attempt(name) as row:
            draws = recipe.draw(0, 0, np.arange(num), sizes)
            outs = []
            for device in (torch.device("cpu"), scale.device):
                out = torch.full((num, 3, height, width), 7.0, device=device)
                engine = compile_engine("fused", recipe, device=device)
                engine.run(pictures.to(device), draws, out)
                outs.append(out.cpu().double())
            gap = (outs[0] - outs[1]).abs() * 255 * 0.225  # undo the division by the deviation
            row["max"], row["mean"] = float(gap.max()), float(gap.mean())
            row["control"] = float((outs[0] - outs[1].flip(0)).abs().max()) * 255 * 0.225
            worst = max(worst, row["max"])
    notes.put(headline=f"largest difference between devices {worst:.4f}/255")
