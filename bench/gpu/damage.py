"""Step: broken files of all kinds in one batch, which cost nothing but themselves."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from bench.gpu.broken import broken_files
from bench.gpu.contenders import Decoder, decoders
from bench.gpu.photographs import photographs, temporary_files
from bench.gpu.rows import Row, Rows
from bench.gpu.scale import Scale
from dali_pipes import Loader
from gpu_aug import HorizontalFlip, RandomResizedCrop, Recipe
from readers import open_dataset

SIZE = (160, 213)
"""Height and width of the sound pictures."""

_RECIPE = Recipe([RandomResizedCrop(64), HorizontalFlip()])
_CPU = torch.device("cpu")


@dataclass
class Run:
    """The output of a loader for a folder.

    Attributes:
        images: [3, height, width] on the CPU by the sample's index.
        bad: Index and stage of each bad sample, in the order in which they were met.
        reasons: Why they were bad.
    """

    images: dict[int, torch.Tensor] = field(default_factory=dict)
    bad: list[tuple[int, str]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


def damage(scale: Scale, data: Path, rows: Rows) -> None:
    """Load the same batch with and without broken files, by decoder. One kind after the other is a matter of tests."""
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


def load(folder: Path, device: torch.device, decoder: Decoder) -> Run:
    """Load a folder as one batch, in its order and without its bad samples."""
    dataset = open_dataset(folder)
    options: dict[str, Any] = {"shuffle": "none", "last_batch": "partial", "dtype": torch.float32}
    options |= {"on_bad_sample": "skip", "max_bad_samples": 10**6, "engine": "fused"}
    options |= {"decoder": decoder, "device": device, "batch_size": len(dataset)}
    images: dict[int, torch.Tensor] = {}
    with Loader(dataset, _RECIPE, **options) as loader:
        for batch in loader:
            images |= dict(zip(batch.indices.tolist(), batch.images.cpu(), strict=True))
        bad = loader.bad_samples
    return Run(images, [(one.index, one.stage) for one in bad], [one.reason for one in bad])


def judge(actual: Run, expected: Run, sound: Run, damaged: set[int], row: Row) -> None:
    """Fill in a row: the largest difference that damage makes to a picture beside it, of 255.

    Args:
        actual: What the device made of a folder with broken files.
        expected: What the CPU made of it.
        sound: What the device made of the same folder without damage.
        damaged: The indices of the broken files.
        row: The row.

    Raises:
        AssertionError: A verdict is not the CPU's, a sample is lost, or a neighbour has another bit.
    """
    row.facts["verdicts"] = sorted({stage for _, stage in expected.bad}) or ["decodes"]
    row.facts["same reasons"] = actual.reasons == expected.reasons
    assert actual.bad == expected.bad, (
        f"bad samples {actual.bad} instead of the CPU's {expected.bad}; reasons {actual.reasons[:2]}"
    )
    remaining = sound.images.keys() - {index for index, _ in expected.bad}
    assert actual.images.keys() == remaining, (
        f"samples {sorted(actual.images)} came instead of {sorted(remaining)}"
    )
    # What decodes though it is broken may be anything, and is only stated.
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
