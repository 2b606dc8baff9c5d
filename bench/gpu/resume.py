"""Step: runs resumed on another device give the same samples and the same images."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from bench.gpu.our_loader import Decoder, decoders
from bench.gpu.photographs import photographs, write_files
from bench.gpu.rows import Row, Rows
from bench.gpu.scale import Scale
from dali_pipes import Loader
from gpu_aug import ColorJitter, HorizontalFlip, RandomResizedCrop, Recipe
from readers import Dataset, open_dataset

_SIDE = 64
_RECIPE = Recipe(
    [RandomResizedCrop(_SIDE), HorizontalFlip(), ColorJitter(0.4, 0.4, 0.4, 0.1, p=0.8)]
)
_EDGE = 3  # DALI repeats the outermost pixels where torch renormalises weights

# Of 255: 4 of the decoder and 16 of DALI's edge, times what the jitter of brightness and contrast makes of them.
_MEAN, _INSIDE, _MOST = 1.5, 12.0, 32.0

At = tuple[int, int]
"""Epoch, and position in it."""


@dataclass(frozen=True)
class Where:
    """The settings of one part of a run.

    Attributes:
        decoder: Name of the decoder.
        device: Device of the engine.
        batch_size: Samples in a step.
        helper: Whether a process of its own makes the batches.
    """

    decoder: Decoder
    device: torch.device
    batch_size: int = 8
    helper: bool = False

    def __str__(self) -> str:
        how = " in a helper process" if self.helper else ""
        return f"{self.decoder} on {self.device.type}, {self.batch_size} at a time{how}"


@dataclass
class Run:
    """The output of a run.

    Attributes:
        indices: The index of each sample.
        images: [3, side, side] on the CPU.
    """

    indices: dict[At, int] = field(default_factory=dict)
    images: dict[At, torch.Tensor] = field(default_factory=dict)


def resume(scale: Scale, data: Path, rows: Rows) -> None:
    """Begin on the device and go on on the CPU, and the other way round, in the middle of the second epoch."""
    cpu = torch.device("cpu")
    home = Where("cpu", cpu)
    with TemporaryDirectory() as root:
        dataset = open_dataset(write_files(Path(root) / "files", photographs(data, (160, 213), 48)))
        whole, other = Run(), Run()
        run(dataset, home, whole, epochs=2)
        run(dataset, home, other, epochs=2, seed=1)
        for first, second in _pairs(scale, home):
            with rows.check(f"{first}, then {second}") as row:
                found = Run()
                state = run(dataset, first, found, epochs=2, last_steps=2)
                run(dataset, second, found, epochs=1, state=json.loads(json.dumps(state)))
                compare(found, whole, other, row)


def _pairs(scale: Scale, home: Where) -> Iterator[tuple[Where, Where]]:
    for decoder in decoders():
        there = Where(decoder, scale.device)
        yield from ((there, home), (home, there))
        yield there, Where("cpu", home.device, 12)
        yield home, Where(decoder, scale.device, 6)
    helper = Where("cpu", scale.device, helper=True)
    yield from ((Where("cpu", scale.device), helper), (helper, home))


def run(
    dataset: Dataset,
    where: Where,
    found: Run,
    *,
    epochs: int,
    last_steps: int | None = None,
    state: Any = None,
    seed: int = 0,
) -> Any:
    """Run epochs, the last one for some steps only, append the output, and return the state.

    Raises:
        AssertionError: A position comes again.
    """
    options: dict[str, Any] = {"decoder": where.decoder, "device": where.device, "seed": seed}
    options |= {"batch_size": where.batch_size, "helper_process": where.helper, "engine": "fused"}
    options |= {"dtype": torch.float32, "last_batch": "partial"}
    with Loader(dataset, _RECIPE, **options) as loader:
        if state is not None:
            loader.load_state_dict(state)
        for number in range(epochs):
            for batch in islice(loader, last_steps if number == epochs - 1 else None):
                position = loader.state_dict()["consumed"] - len(batch)
                for index, image in zip(batch.indices.tolist(), batch.images.cpu(), strict=True):
                    at = (loader.epoch, position)
                    assert at not in found.indices, f"epoch and position {at} come again"
                    found.indices[at], found.images[at] = index, image
                    position += 1
        return loader.state_dict()


def compare(found: Run, whole: Run, other: Run, row: Row) -> None:
    """Fill in a row: the largest mean difference of a picture from the uninterrupted run's, of 255.

    Args:
        found: The interrupted run.
        whole: The uninterrupted run on the CPU.
        other: One of another seed, which has to differ.
        row: The row.

    Raises:
        AssertionError: There are other samples, or pictures beyond the decoders' tolerance.
    """
    assert found.indices == whole.indices, f"other samples: {_first(found.indices, whole.indices)}"
    assert other.indices != whole.indices, "control: a run of another seed has the same samples"
    gaps = {at: (image - whole.images[at]).abs() * 255 for at, image in found.images.items()}
    inside = max(float(gap[:, _EDGE:-_EDGE, _EDGE:-_EDGE].max()) for gap in gaps.values())
    most = max(float(gap.max()) for gap in gaps.values())
    row.facts |= {"most inside": round(inside, 2), "most": round(most, 2)}
    controls = [float((other.images[at] - whole.images[at]).abs().mean()) * 255 for at in gaps]
    row.judge(max(float(gap.mean()) for gap in gaps.values()), _MEAN, sorted(controls)[len(controls) // 10])  # fmt: skip
    assert inside <= _INSIDE, f"pictures differ by {inside:.1f} inside, {_INSIDE} is allowed"
    assert most <= _MOST, f"pictures differ by {most:.1f} at the edge, {_MOST} is allowed"


def _first(found: dict[At, int], expected: dict[At, int]) -> str:
    """The first difference of two dictionaries, for an error."""
    at = next(at for at in sorted(found.keys() | expected.keys()) if found.get(at) != expected.get(at))  # fmt: skip
    return f"epoch and position {at}: {found.get(at)} instead of {expected.get(at)}"
