"""Step: where a GPU's time goes: of our loader flat out, and of a training step with and without it."""

from collections.abc import Callable
from itertools import repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from bench.compare.usage import Busy
from bench.gpu_visit.decode import DaliDecoder
from bench.gpu_visit.flow import flow_rate, settle
from bench.gpu_visit.folder import write_folder
from bench.gpu_visit.loop import endless, loader_for
from bench.gpu_visit.photographs import photographs
from bench.gpu_visit.resnet import resident_batch, training_step
from bench.gpu_visit.scale import Notes, Scale, device_milliseconds
from bench.gpu_visit.trace import recorded
from bench.gpu_visit.trace import shares as shares_of
from gpu_aug import Recipe

_SECONDS_TRACED = 0.4
_BETWEEN_LOSSES = 8  # steps after which a training loop reads its loss
_NUM_AHEAD = 5  # of our loader with DALI: its prefetch of 2, and what its stages hold


def shares(scale: Scale, data: Path, notes: Notes) -> None:
    """Rates come first, without the profiler; then the same loop runs under it.

    The JPEG engine runs no kernels: its work is told by NVML's percents and not by the shares.
    """
    size, (count, _) = next(iter(scale.pictures.items()))
    num = min(scale.batch_size, 128)
    encoded = photographs(data, size, count)
    with notes.attempt("host to device") as row:
        row["gigabytes_per_second"] = _upload_rate(scale)
    with notes.attempt("decode only") as row:
        row["bytes_per_image"] = sum(map(len, encoded)) // len(encoded)
        pipeline = DaliDecoder(encoded, num, scale, {"jpeg_fancy_upsampling": True})
        row |= _looked_at(pipeline.run, num, scale)
        del pipeline
    step = training_step(scale)
    with notes.attempt("step alone") as row:
        resident = repeat(resident_batch(scale, num))
        row |= _looked_at(lambda: step(next(resident)), num, scale, settle_every=_BETWEEN_LOSSES)
    with TemporaryDirectory(prefix="gpu-aug-") as folder:
        write_folder(encoded, Path(folder))
        recipe = Recipe.imagenet_train(size=scale.side)
        with loader_for(scale, Path(folder), "dali", batch_size=num, recipe=recipe) as loader:
            batches = endless(loader)
            with notes.attempt("loader alone") as row:
                row |= _looked_at(lambda: next(batches), num, scale)

            def train() -> None:
                batch = next(batches)
                step((batch.images, batch.labels))

            with notes.attempt("step and loader") as row:
                row |= _looked_at(train, num, scale, settle_every=_BETWEEN_LOSSES)
    notes.put(headline=_headline(notes))


def _looked_at(
    call: Callable[[], Any], num: int, scale: Scale, *, settle_every: int = 1
) -> dict[str, Any]:
    """Rate, and how busy the engines were; then, of a second look, who was at work and when."""
    seconds = 2 * scale.seconds
    for _ in range(_NUM_AHEAD):
        call()
    with Busy(scale.device) as busy:
        found = flow_rate(
            call, num, seconds, scale.device, discard=_NUM_AHEAD, settle_every=settle_every
        )
    calls = max(4, round(found["images_per_second"] * _SECONDS_TRACED / num)) if scale.on_gpu else 2

    def again() -> None:
        for number in range(calls):
            call()
            if number % settle_every == 0:
                settle(scale.device)

    return {
        **found,
        **busy.found,
        "traced": {"batches": calls, **shares_of(recorded(again, scale.device))},
    }


def _upload_rate(scale: Scale) -> float:
    """Gigabytes per second from pinned memory to the device."""
    size = 2**28 if scale.on_gpu else 2**20
    source = torch.empty(size, dtype=torch.uint8, pin_memory=scale.on_gpu)
    target = torch.empty(size, dtype=torch.uint8, device=scale.device)
    time = device_milliseconds(
        lambda _: target.copy_(source, non_blocking=True), scale.device, calls=5
    )
    return round(size / time["device"] / 1e6, 1)


def _headline(notes: Notes) -> str:
    parts = []
    for name in ("loader alone", "step alone", "step and loader"):
        row = notes.found[name]
        if "traced" not in row:
            parts.append(f"{name}: {row.get('error')}")
            continue
        percents = {part: f"{share:.0%}" for part, share in row["traced"]["share"].items()}
        told = ", ".join(f"{part} {percent}" for part, percent in percents.items())
        beside = row["traced"].get("decode beside augment or step", 0.0)
        engine = row.get("percent of the JPEG engine", "unknown")
        parts.append(
            f"{name} {row['images_per_second']:.0f} images/s: {told or 'no kernels'}, decode beside the rest "
            f"{beside:.0%}, JPEG engine {engine} %"
        )
    return "; ".join(parts)
