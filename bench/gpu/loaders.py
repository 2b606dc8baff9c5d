"""Steps: loaders alone and behind a training step of ResNet-50, in turns."""

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from bench.compare.contestant import Footing
from bench.compare.images import Repeated
from bench.compare.lineup import lineup
from bench.compare.race import opened
from bench.compare.result import Comparison
from bench.compare.timer import rotated, time_slice
from bench.compare.usage import Busy, mean_of
from bench.gpu.photographs import photographs, write_files
from bench.gpu.rows import Rows
from bench.gpu.scale import Scale, finish
from gpu_aug import Recipe
from readers import open_dataset
from readers.cores import usable_cores

IDEAL = "no loader"
"""The training step that is lent a batch which lies on the device."""

ALONE, TRAINING, LOST = "alone", "training", "lost to waiting"
"""What stands in rows behind the name of a loader and a comma."""

OURS = ("gpu-aug/dali+fused", "gpu-aug/cpu+fused", "gpu-aug/dali+kornia")
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
        busy: What was at work in the turns alone.
    """

    next_batch: Callable[[], torch.Tensor]
    num_discard: int = 0
    num_ahead: int = 0
    alone: list[float] = field(default_factory=list)
    training: list[float] = field(default_factory=list)
    busy: list[Busy] = field(default_factory=list)


def loaders(scale: Scale, data: Path, rows: Rows) -> None:
    """Ours and others, behind a step that reads its loss now and then."""
    peers = PEERS if scale.on_gpu else ("dali-cpu", *PEERS[1:])
    _take_turns(scale, data, rows, [*peers, *OURS], _BETWEEN_LOSSES)


def asking(scale: Scale, data: Path, rows: Rows) -> None:
    """Ours alone, behind a step that reads its loss every time, as most loops do."""
    _take_turns(scale, data, rows, OURS[:2], 1)


def _take_turns(
    scale: Scale, data: Path, rows: Rows, names: Sequence[str], between_losses: int
) -> None:
    """In every round each has its turn: first alone, and at once behind the step; the step alone begins the round."""
    with TemporaryDirectory(prefix="gpu-aug-") as root, ExitStack() as stack:
        sources = _opened(names, _footing(scale, data, Path(root)), rows, stack)
        step, ideal = training_step(scale, between_losses), Source(_resident(scale))
        for _ in range(10 if scale.on_gpu else 1):
            step(ideal.next_batch())
        for number in range(_ROUNDS):
            _train(ideal, step, scale)
            for name in rotated(list(sources), number):
                try:
                    _turn(sources[name], step, scale)
                except Exception as error:
                    del sources[name]
                    with rows.measure(name):
                        raise error
        put_rows(sources, ideal, rows)


def _footing(scale: Scale, data: Path, root: Path) -> Footing:
    """The photographs shared by all loaders."""
    size, (count, _) = next(iter(scale.pictures.items()))
    folder = write_files(root / "files", photographs(data, size, count))
    found = open_dataset(folder)
    return Footing(
        Repeated(found, np.arange(len(found))),
        sorted(folder.iterdir()),
        [0] * count,
        Recipe.imagenet_train_jitter(size=scale.side),
        batch_size=_batch_size(scale),
        device=scale.device,
        num_threads=usable_cores(),
        seed=0,
        dtype=torch.bfloat16,
    )


def _batch_size(scale: Scale) -> int:
    return min(scale.batch_size, 128)


def _opened(
    names: Sequence[str], footing: Footing, rows: Rows, stack: ExitStack
) -> dict[str, Source]:
    """The loaders that deliver a batch; those that fail are reported."""
    peers = [name for name in names if name not in OURS] or ["none"]
    entries = [one for one in lineup(peers) if one.name in names]
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
    def call() -> torch.Tensor:
        images = source.next_batch()
        step(images)
        return images

    taken = time_slice(
        call, seconds=1.5 * scale.seconds, discard=0, finish=partial(finish, scale.device)
    )
    source.training.append(taken.images_per_second)


def put_rows(sources: Mapping[str, Source], ideal: Source, rows: Rows) -> None:
    """Write three rows for each source; the loss is the median over rounds of the share within a round."""
    with rows.measure(IDEAL) as row:
        row.put_runs(ideal.training)
    for name, source in sources.items():
        lost = [100 * (1 - own / alone) for own, alone in zip(source.training, ideal.training, strict=True)]  # fmt: skip
        for what, runs in ((ALONE, source.alone), (TRAINING, source.training), (LOST, lost)):
            with rows.measure(f"{name}, {what}", "%" if what == LOST else "images/s") as row:
                row.facts |= mean_of(source.busy) if what == ALONE else {}
                row.put_runs(runs)


def _resident(scale: Scale) -> Callable[[], torch.Tensor]:
    """A batch that lies on the device already."""
    shape = (_batch_size(scale), 3, scale.side, scale.side)
    images = torch.randn(shape, device=scale.device, dtype=torch.bfloat16)
    images = images.contiguous(memory_format=torch.channels_last)
    return lambda: images


def training_step(scale: Scale, between_losses: int) -> Step:
    """One step of ResNet-50 in bfloat16, channels last; in a rehearsal of one layer."""
    from torchvision.models import resnet50

    torch.backends.cudnn.benchmark = scale.on_gpu  # the fastest convolutions for these shapes
    tiny = (torch.nn.Conv2d(3, 10, 3, 4), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    model = resnet50(num_classes=10) if scale.on_gpu else torch.nn.Sequential(*tiny)
    model = model.to(scale.device).to(memory_format=torch.channels_last)
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
        if next(numbers) % between_losses == 0:
            loss.item()

    return step
