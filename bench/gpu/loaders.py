"""Step: loaders alone and behind a training step of ResNet-50, in turns."""

import itertools
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
import torch

from bench.compare.contestant import Footing
from bench.compare.images import Repeated
from bench.compare.lineup import lineup
from bench.compare.race import opened
from bench.compare.result import Comparison
from bench.compare.timer import time_slice
from bench.compare.usage import Busy, mean_of
from bench.gpu.photographs import photographs, write_files
from bench.gpu.rows import Rows
from bench.gpu.scale import Scale, finish
from dali_pipes.jpeg.tiling.add_restarts import add_restarts
from gpu_aug import Recipe
from readers import Dataset, open_dataset
from readers.cores import usable_cores

IDEAL = "no loader"
"""The training step that is lent a batch which lies on the device."""

ALONE, TRAINING, LOST = "alone", "training", "lost to waiting"
"""What stands in rows behind the name of a loader and a comma."""

OURS = ("gpu-aug/dali+fused", "gpu-aug/cpu+fused")
PEERS = ("dali-gpu", "torchvision-cuda", "torchvision-v2", "opencv-albumentations")

Step = Callable[[torch.Tensor], None]
"""One step of training with images [b, 3, side, side]."""

_ROUNDS = 3
_BETWEEN_LOSSES = 8  # steps after which a training loop reads its loss
_REST_SECONDS_MAX = 2.0


@dataclass
class Source:
    """Somebody who hands over batches, in turns with others.

    Attributes:
        next_batch: Hands over images.
        num_discard: Batches to take before its rate is steady again after a pause.
        num_ahead: Batches that it prepares while others have their turn.
        alone: Images per second without a step, one run per round.
        training: Images per second behind the step.
        asking: The share of that time that the loop spent in asking for batches.
        busy: What was at work in the turns alone.
    """

    next_batch: Callable[[], torch.Tensor]
    num_discard: int = 0
    num_ahead: int = 0
    alone: list[float] = field(default_factory=list)
    training: list[float] = field(default_factory=list)
    asking: list[float] = field(default_factory=list)
    busy: list[Busy] = field(default_factory=list)


def loaders(scale: Scale, data: Path, rows: Rows) -> None:
    """In every round each has its turn: first alone, and at once behind the step; the step alone begins the round."""
    with TemporaryDirectory(prefix="gpu-aug-") as root, ExitStack() as stack:
        sources = _opened(scale, _footing(scale, data, Path(root)), rows, stack)
        step, ideal = training_step(scale), Source(_resident(scale))
        for _ in range(10 if scale.on_gpu else 1):
            step(ideal.next_batch())
        for number in range(_ROUNDS):
            _train(ideal, step, scale)
            names = list(sources)
            for name in names[number:] + names[:number]:  # nobody always follows the same neighbour
                try:
                    _turn(sources[name], step, scale)
                except Exception as error:
                    del sources[name]
                    with rows.measure(name):
                        raise error
        put_rows(sources, ideal, rows)


def _footing(scale: Scale, data: Path, root: Path) -> Footing:
    """The photographs shared by all loaders, plain and tiled."""
    size, (count, _) = next(iter(scale.pictures.items()))
    encoded = photographs(data, size, count)
    plain = write_files(root / "plain", encoded)
    tiled = write_files(root / "tiled", [add_restarts(part) for part in encoded])

    def repeated(folder: Path) -> Dataset:
        found = open_dataset(folder)
        return Repeated(found, np.arange(len(found)))

    return Footing(
        repeated(plain),
        sorted(plain.iterdir()),
        [0] * count,
        Recipe.imagenet_train(size=scale.side),
        batch_size=_batch_size(scale),
        device=scale.device,
        num_threads=usable_cores(),
        seed=0,
        dtype=torch.bfloat16,
        tiled=repeated(tiled),
    )


def _batch_size(scale: Scale) -> int:
    return min(scale.batch_size, 128)


def _opened(scale: Scale, footing: Footing, rows: Rows, stack: ExitStack) -> dict[str, Source]:
    """The loaders that deliver a batch; those that fail are reported."""
    peers = PEERS if scale.on_gpu else ("dali-cpu", *PEERS[1:])
    ours = {*OURS, *(f"{name} (tiled)" for name in OURS)}
    entries = [one for one in lineup(peers, tiled=True) if one.name in {*peers, *ours}]
    comparison, found = Comparison(), {}
    for one in opened(entries, footing, comparison, print):
        stack.callback(one.close)
        found[one.name] = Source(one.next_batch, one.num_discard, one.num_ahead)  # type: ignore[union-attr]
    for absent in comparison.absent:
        if not absent.trace:
            rows.leave_out(absent.name, absent.reason)
            continue
        with rows.measure(absent.name):
            raise RuntimeError(f"{absent.reason}\n{absent.trace}")
    return found


def _turn(source: Source, step: Step, scale: Scale) -> None:
    """Alone, behind the step, and a rest in which it prepares what it will and then disturbs nobody."""
    with Busy(scale.device) as busy:
        taken = time_slice(
            source.next_batch,
            seconds=scale.seconds / 2,
            discard=source.num_discard if scale.on_gpu else 1,
            finish=partial(finish, scale.device),
        )
    source.busy.append(busy)
    source.alone.append(taken.images_per_second)
    _train(source, step, scale)
    if scale.on_gpu:
        ahead = source.num_ahead * _batch_size(scale) / taken.images_per_second
        time.sleep(min(_REST_SECONDS_MAX, ahead))


def _train(source: Source, step: Step, scale: Scale) -> None:
    asking = 0.0

    def call() -> torch.Tensor:
        nonlocal asking
        asked = time.perf_counter()
        images = source.next_batch()
        asking += time.perf_counter() - asked
        step(images)
        return images

    seconds, wait = 1.5 * scale.seconds, partial(finish, scale.device)
    taken = time_slice(call, seconds=seconds, discard=0, finish=wait)
    source.training.append(taken.images_per_second)
    source.asking.append(asking / taken.seconds)


def put_rows(sources: Mapping[str, Source], ideal: Source, rows: Rows) -> None:
    """Write three rows for each source; the loss is the median over rounds of the share within a round."""
    with rows.measure(IDEAL) as row:
        row.put_runs(ideal.training)
    for name, source in sources.items():
        with rows.measure(f"{name}, {ALONE}") as row:
            row.facts |= mean_of(source.busy)
            row.put_runs(source.alone)
        with rows.measure(f"{name}, {TRAINING}") as row:
            row.facts["share of the time in next()"] = round(median(source.asking), 4)
            row.put_runs(source.training)
        with rows.measure(f"{name}, {LOST}", "%") as row:
            pairs = zip(source.training, ideal.training, strict=True)
            row.put_runs([100 * (1 - own / alone) for own, alone in pairs])


def _resident(scale: Scale) -> Callable[[], torch.Tensor]:
    """A batch that lies on the device already."""
    shape = (_batch_size(scale), 3, scale.side, scale.side)
    images = torch.randn(shape, device=scale.device, dtype=torch.bfloat16)
    images = images.contiguous(memory_format=torch.channels_last)
    return lambda: images


def training_step(scale: Scale) -> Step:
    """One step of ResNet-50 in bfloat16 as people train it, channels last; it reads its loss every few steps."""
    torch.backends.cudnn.benchmark = scale.on_gpu  # the fastest convolutions for these shapes
    model = _model(scale).to(scale.device).to(memory_format=torch.channels_last)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    labels = torch.zeros(_batch_size(scale), dtype=torch.int64, device=scale.device)
    numbers = itertools.count()

    def step(images: torch.Tensor) -> None:
        images = images.contiguous(memory_format=torch.channels_last)
        with torch.autocast(scale.device.type, dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        if next(numbers) % _BETWEEN_LOSSES == 0:
            loss.item()

    return step


def _model(scale: Scale) -> torch.nn.Module:
    """ResNet-50; in a rehearsal one layer."""
    from torchvision.models import resnet50

    if scale.on_gpu:
        model: torch.nn.Module = resnet50(num_classes=10)
        return model
    pool = torch.nn.AdaptiveAvgPool2d(1)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 10, 3, 4), pool, torch.nn.Flatten())
