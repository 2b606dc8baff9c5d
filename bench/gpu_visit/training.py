"""Step: a training step of ResNet-50 behind each loader, and the loaders alone."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from bench.gpu_visit.loop import decoders, endless, loader_for
from bench.gpu_visit.photographs import photographs
from bench.gpu_visit.scale import Notes, Scale, finish
from dali_pipes.tiling.tile import add_restarts
from gpu_aug import Recipe

Pair = tuple[torch.Tensor, torch.Tensor]


def training(scale: Scale, data: Path, notes: Notes) -> None:
    """Images per second of a bfloat16 step, without a loader first, and the share lost to waiting."""
    size, (count, _) = next(iter(scale.pictures.items()))
    num = min(scale.batch_size, 128)
    ideal: dict[str, Any] = {}
    with TemporaryDirectory(prefix="gpu-aug-") as folder, ExitStack() as stack:
        plain, tiled = Path(folder) / "plain", Path(folder) / "tiled"
        _write(photographs(data, size, count), plain, tiled)
        step = _step(scale)
        images = torch.randn(num, 3, scale.side, scale.side, device=scale.device, dtype=_DTYPE)
        images = images.to(memory_format=torch.channels_last)
        labels = torch.zeros(num, dtype=torch.int64, device=scale.device)
        with notes.attempt("no loader") as row:
            ideal = _run(repeat((images, labels)), step, num, scale)
            row |= ideal
        sources = _sources(scale, plain, tiled, num, stack)
        for name, open_ in sources.items():
            with notes.attempt(f"loader alone: {name}") as row:
                row |= _run(open_(), None, num, scale)
            with notes.attempt(f"step and {name}") as row:
                row |= _run(open_(), step, num, scale)
                lost = 1 - row["images_per_second"] / ideal["images_per_second"]
                row["share_lost"] = round(lost, 4)
    speeds = {
        name: row.get("images_per_second", row.get("error")) for name, row in notes.found.items()
    }
    notes.put(headline="; ".join(f"{name}: {speed}" for name, speed in speeds.items()))


_DTYPE = torch.bfloat16


def _write(encoded: list[bytes], plain: Path, tiled: Path) -> None:
    """Write class folders of the photographs, as they are and tiled."""
    for number, data in enumerate(encoded):
        name = f"{number % 10}/{number:04d}.jpg"
        for root, content in ((plain, data), (tiled, add_restarts(data))):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(content)


def _sources(
    scale: Scale, plain: Path, tiled: Path, num: int, stack: ExitStack
) -> dict[str, Callable[[], Iterator[Pair]]]:
    recipe = Recipe.imagenet_train(size=scale.side)

    def ours(root: Path, decoder: Any) -> Iterator[Pair]:
        loader = loader_for(scale, root, decoder, batch_size=num, recipe=recipe)
        stack.callback(loader.close)
        return ((batch.images, batch.labels) for batch in endless(loader))

    found: dict[str, Callable[[], Iterator[Pair]]] = {}
    for decoder in decoders():
        found[f"gpu-aug/{decoder}+fused"] = lambda decoder=decoder: ours(plain, decoder)  # type: ignore[misc]
        found[f"gpu-aug/{decoder}+fused (tiled)"] = lambda decoder=decoder: ours(tiled, decoder)  # type: ignore[misc]
    if "dali" in decoders():
        found["DALI's own pipeline"] = lambda: _dalis_own(scale, plain, num)
    return found


def _dalis_own(scale: Scale, root: Path, num: int) -> Iterator[Pair]:
    """As DALI's own examples for training write it."""
    from nvidia.dali import Pipeline, fn, types
    from nvidia.dali.plugin.pytorch import DALIGenericIterator

    from bench.machine import num_cores

    device = "mixed" if scale.on_gpu else "cpu"
    pipeline = Pipeline(num, num_cores(), scale.device.index)
    with pipeline:
        encoded, labels = fn.readers.file(file_root=str(root), random_shuffle=True)
        images = fn.decoders.image(encoded, device=device, output_type=types.RGB)
        images = fn.random_resized_crop(images, size=(scale.side, scale.side), antialias=True)
        images = fn.crop_mirror_normalize(
            images,
            dtype=types.FLOAT16,
            output_layout="HWC",
            mean=[255 * value for value in (0.485, 0.456, 0.406)],
            std=[255 * value for value in (0.229, 0.224, 0.225)],
            mirror=fn.random.coin_flip(),
        )
        pipeline.set_outputs(images, labels.gpu() if scale.on_gpu else labels)
    pipeline.build()
    for (batch,) in DALIGenericIterator([pipeline], ["images", "labels"]):
        yield batch["images"].permute(0, 3, 1, 2).to(_DTYPE), batch["labels"].flatten().long()


def _step(scale: Scale) -> Callable[[Pair], None]:
    """One step of training in bfloat16, channels last; it does not wait for the device."""
    model = _model(scale).to(scale.device).to(memory_format=torch.channels_last)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step(batch: Pair) -> None:
        images, labels = batch
        with torch.autocast(scale.device.type, dtype=_DTYPE):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return step


def _model(scale: Scale) -> torch.nn.Module:
    """ResNet-50; in a rehearsal one layer."""
    from torchvision.models import resnet50

    if scale.on_gpu:
        model: torch.nn.Module = resnet50(num_classes=10)
        return model
    pool = torch.nn.AdaptiveAvgPool2d(1)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 10, 3, 4), pool, torch.nn.Flatten())


def _run(
    batches: Iterator[Pair], step: Callable[[Pair], None] | None, num: int, scale: Scale
) -> dict[str, Any]:
    """Images per second, and which part of the time the loop spent in asking for batches."""
    for _ in range(6 if scale.on_gpu else 1):
        batch = next(batches)
        if step is not None:
            step(batch)
    finish(scale.device)
    began, waited, count = time.perf_counter(), 0.0, 0
    seconds = 4 * scale.seconds if scale.on_gpu else scale.seconds
    while count < 2 or time.perf_counter() - began < seconds:
        asked = time.perf_counter()
        batch = next(batches)
        waited += time.perf_counter() - asked
        if step is not None:
            step(batch)
        count += 1
        if count % 8 == 0:
            finish(
                scale.device
            )  # as reading a loss now and then does; else the queue hides all waiting
    finish(scale.device)
    elapsed = time.perf_counter() - began
    return {
        "images_per_second": round(count * num / elapsed, 1),
        "share_in_next": round(waited / elapsed, 4),
        "batches": count,
    }
