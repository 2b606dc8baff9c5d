"""Step: a training step of ResNet-50 behind each loader, in turns, and the loaders alone."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from bench.baselines.libraries import TorchvisionV2
from bench.baselines.torch_loader import TorchLoader
from bench.baselines.torchvision_cuda import TorchvisionCuda
from bench.compare.contestant import Footing, Handy
from bench.compare.images import Repeated
from bench.gpu_visit.flow import slice_rate, summary
from bench.gpu_visit.folder import write_folder
from bench.gpu_visit.loop import decoders, endless, loader_for
from bench.gpu_visit.photographs import photographs
from bench.gpu_visit.resnet import DTYPE, Pair, resident_batch, resident_labels, training_step
from bench.gpu_visit.scale import Notes, Scale
from bench.machine import num_cores
from dali_pipes.jpeg.tiling.tile import add_restarts
from gpu_aug import Recipe
from readers import open_dataset

_ROUNDS = 3
_BETWEEN_LOSSES = 8  # steps after which a training loop reads its loss
_REST_SECONDS_MAX = 2.0
_IDEAL = "no loader"


@dataclass
class Source:
    """A loader that takes turns with others.

    Attributes:
        batches: Without an end.
        num_ahead: Batches that it prepares while others have their turn.
        num_discard: Batches to take before its rate is steady again.
    """

    batches: Iterator[Pair]
    num_ahead: int
    num_discard: int


def training(scale: Scale, data: Path, notes: Notes) -> None:
    """Images per second of a bfloat16 step behind each loader, and the share lost to the step without one.

    In every round each has its turn: first alone, which also takes what it prepared meanwhile, and at once
    behind the step. A share lost is the median over the rounds of the ratio within a round.
    """
    size, (count, _) = next(iter(scale.pictures.items()))
    num = min(scale.batch_size, 128)
    with TemporaryDirectory(prefix="gpu-aug-") as folder, ExitStack() as stack:
        encoded = photographs(data, size, count)
        plain, tiled = Path(folder) / "plain", Path(folder) / "tiled"
        paths = write_folder(encoded, plain)
        write_folder([add_restarts(part) for part in encoded], tiled)
        makers = _makers(scale, _footing(scale, plain, paths, num), tiled, stack)
        sources = _opened(makers, notes)
        step = training_step(scale)
        resident = repeat(resident_batch(scale, num))
        for _ in range(10 if scale.on_gpu else 1):
            step(next(resident))
        rows: dict[str, list[dict[str, float]]] = {_IDEAL: []}
        for number in range(_ROUNDS):
            ideal = _stepped(resident, step, num, scale)
            rows[_IDEAL].append(ideal)
            names = [name for name in makers if name in sources]
            for name in names[number:] + names[:number]:  # nobody always follows the same neighbour
                with notes.attempt(name) as row:
                    row |= {**notes.found[name], "note": _NOTES.get(name, "")}
                    source = sources.pop(name)  # who fails has no further turn
                    turn = _turn(source, step, num, scale)
                    sources[name] = source
                    turn["lost"] = 1 - turn["images_per_second"] / ideal["images_per_second"]
                    rows.setdefault(name, []).append(turn)
                    row |= _row(rows[name])
            notes.put(**{_IDEAL: _row(rows[_IDEAL])})
    notes.put(headline=_headline(notes))


_NOTES = {
    "torchvision-v2": f"{TorchvisionV2.note}; pinned memory, moved non-blocking; converted to channels_last",
    "torchvision-cuda": f"{TorchvisionCuda.note}; converted to channels_last",
    "DALI's own pipeline": "float16 channels_last by DALI, to bfloat16 in the loop",
}


def _footing(scale: Scale, root: Path, paths: list[Path], num: int) -> Footing:
    """What the loaders of others get."""
    found = open_dataset(root)
    return Footing(
        Repeated(found, np.arange(len(found))),
        paths,
        [0] * len(paths),
        Recipe.imagenet_train(size=scale.side),
        batch_size=num,
        device=scale.device,
        num_threads=num_cores(),
        seed=0,
        dtype=DTYPE,
    )


def _makers(
    scale: Scale, footing: Footing, tiled: Path, stack: ExitStack
) -> Mapping[str, Callable[[], Source]]:
    """Everyone; the one that forks workers comes first, before any thread has been started."""
    plain, num = footing.files[0].parent.parent, footing.batch_size

    def theirs(contestant: Handy) -> Source:
        stack.callback(contestant.close)
        contestant.open()
        labels = resident_labels(scale, num)
        batches = (
            (contestant.next_batch().contiguous(memory_format=torch.channels_last), labels)
            for _ in repeat(None)
        )
        return Source(batches, contestant.num_ahead, contestant.num_discard)

    def ours(root: Path, decoder: Any) -> Source:
        loader = loader_for(scale, root, decoder, batch_size=num, recipe=footing.recipe)
        stack.callback(loader.close)
        batches = ((batch.images, batch.labels) for batch in endless(loader))
        return Source(batches, 4, 6)

    found: dict[str, Callable[[], Source]] = {
        TorchvisionV2.name: lambda: theirs(TorchLoader(TorchvisionV2(footing.recipe), footing)),
        TorchvisionCuda.name: lambda: theirs(TorchvisionCuda(footing)),
    }
    for decoder in decoders():
        found[f"gpu-aug/{decoder}+fused"] = partial(ours, plain, decoder)
        found[f"gpu-aug/{decoder}+fused (tiled)"] = partial(ours, tiled, decoder)
    if "dali" in decoders():
        found["DALI's own pipeline"] = lambda: Source(_dalis_own(scale, plain, num), 3, 4)
    return found


def _opened(makers: Mapping[str, Callable[[], Source]], notes: Notes) -> dict[str, Source]:
    """Those that hand over a batch."""
    found = {}
    for name, make in makers.items():
        with notes.attempt(name):
            source = make()
            next(source.batches)
            found[name] = source
    return found


def _dalis_own(scale: Scale, root: Path, num: int) -> Iterator[Pair]:
    """As DALI's own examples for training write it."""
    from nvidia.dali import Pipeline, fn, types
    from nvidia.dali.plugin.pytorch import DALIGenericIterator

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
        yield batch["images"].permute(0, 3, 1, 2).to(DTYPE), batch["labels"].flatten().long()


def _turn(source: Source, step: Callable[[Pair], None], num: int, scale: Scale) -> dict[str, float]:
    """Alone, behind the step, and a rest in which it prepares what it will and then disturbs nobody."""
    alone = slice_rate(
        lambda: next(source.batches),
        num,
        scale.seconds / 2,
        scale.device,
        discard=source.num_discard if scale.on_gpu else 1,
    )
    found = _stepped(source.batches, step, num, scale)
    if scale.on_gpu:
        time.sleep(min(_REST_SECONDS_MAX, source.num_ahead * num / alone))
    return {**found, "alone": alone}


def _stepped(
    batches: Iterator[Pair], step: Callable[[Pair], None], num: int, scale: Scale
) -> dict[str, float]:
    """Images per second, and which part of the time the loop spent in asking for batches."""
    waits: list[float] = []

    def call() -> None:
        asked = time.perf_counter()
        batch = next(batches)
        waits.append(time.perf_counter() - asked)
        step(batch)

    rate = slice_rate(call, num, 1.5 * scale.seconds, scale.device, settle_every=_BETWEEN_LOSSES)
    return {"images_per_second": rate, "in next": sum(waits) * rate / (num * len(waits))}


def _row(turns: list[dict[str, float]]) -> dict[str, Any]:
    """Medians over the rounds, and the rounds."""
    found = summary([turn["images_per_second"] for turn in turns])
    found["share_in_next"] = round(median(turn["in next"] for turn in turns), 4)
    if "alone" in turns[0]:
        alone = summary([turn["alone"] for turn in turns])
        found["alone_images_per_second"], found["alone_runs"] = alone.values()
        found["share_lost"] = round(median(turn["lost"] for turn in turns), 4)
        found["share_lost_runs"] = [round(turn["lost"], 4) for turn in turns]
    return found


def _headline(notes: Notes) -> str:
    parts = []
    for name, row in notes.found.items():
        if "share_lost" in row:
            parts.append(
                f"{name}: loses {row['share_lost']:.1%} (alone {row['alone_images_per_second']:.0f})"
            )
        elif name != _IDEAL:
            parts.append(f"{name}: {row.get('error', 'no turn')}")
    ideal = notes.found[_IDEAL]["images_per_second"]
    return f"{_IDEAL}: {ideal:.0f} images/s (target: ours lose less than 2 %); " + "; ".join(parts)
