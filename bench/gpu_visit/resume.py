"""Step: runs that go on on another device: the same samples, the same draws, the same pictures."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import numpy as np
import torch

from bench.audit import compare_histories, report
from bench.audit_history import read_history
from bench.gpu_visit.loop import Decoder, decoders, write_files
from bench.gpu_visit.photographs import photographs
from bench.gpu_visit.scale import Notes, Scale
from dali_pipes import Loader
from dali_pipes.pipeline.fetch import Fetcher
from dali_pipes.pipeline.stages import Fetched
from dali_pipes.schedule import Plan
from gpu_aug import ColorJitter, HorizontalFlip, RandomResizedCrop, Recipe
from readers import Dataset, open_dataset

_SIDE = 64
_RECIPE = Recipe(
    [RandomResizedCrop(_SIDE), HorizontalFlip(), ColorJitter(0.4, 0.4, 0.4, 0.1, p=0.8)]
)
_EDGE = 3  # DALI repeats the outermost pixels where torch renormalises weights

# Of 255: 4 of the decoder and 16 of DALI's edge, times what the jitter of brightness and contrast makes of them.
_MEAN, _INSIDE, _MOST = 1.5, 12.0, 32.0

Draw = tuple[int, str]
"""Index of a sample, and a hash of all that was drawn for it."""


@dataclass(frozen=True)
class Place:
    """Where a part of a run takes place.

    Attributes:
        decoder: Who decodes.
        device: Where the engine runs.
        batch_size: Samples in a step.
        helper: Whether a process of its own makes the batches; what it draws is not seen here.
    """

    decoder: Decoder
    device: torch.device
    batch_size: int
    helper: bool = False

    def __str__(self) -> str:
        how = " in a helper process" if self.helper else ""
        return f"{self.decoder} on {self.device.type}, {self.batch_size} at a time{how}"


@dataclass
class Run:
    """What a run handed over, by epoch and position in it.

    Attributes:
        indices: Of the samples.
        images: [3, side, side] on the CPU.
        draws: What was drawn, where that was seen.
    """

    indices: dict[tuple[int, int], int] = field(default_factory=dict)
    images: dict[tuple[int, int], torch.Tensor] = field(default_factory=dict)
    draws: dict[tuple[int, int], Draw] = field(default_factory=dict)


def resume(scale: Scale, data: Path, notes: Notes) -> None:
    """Begin on the device and go on on the CPU, and the other way round, in the middle of the second epoch."""
    cpu = torch.device("cpu")
    at_home = Place("cpu", cpu, 8)
    pairs: list[tuple[Place, Place]] = []
    for decoder in decoders():
        there = Place(decoder, scale.device, 8)
        pairs += [(there, at_home), (at_home, there)]
        pairs += [(there, Place("cpu", cpu, 12)), (at_home, Place(decoder, scale.device, 6))]
    helper = Place("cpu", scale.device, 8, helper=True)
    pairs += [(Place("cpu", scale.device, 8), helper), (helper, at_home)]
    with TemporaryDirectory() as root:
        folder = Path(root)
        dataset = open_dataset(write_files(folder / "files", photographs(data, (160, 213), 48)))
        whole = Run()
        with recorded(whole):
            run(dataset, at_home, whole, folder / "whole.jsonl", epochs=2)
        for number, (first, second) in enumerate(pairs):
            with notes.attempt(f"{first}, then {second}") as row:
                audit = folder / f"{number}.jsonl"
                found = interrupted(dataset, first, second, audit)
                compare(found, whole, row)
                row["audit"] = said = audited(folder / "whole.jsonl", audit)
                assert said.startswith("same samples"), f"gpu-aug audit: {said}"
        with notes.attempt("control: another seed") as row:
            other = Run()
            with recorded(other):
                run(dataset, at_home, other, folder / "other.jsonl", epochs=2, seed=1)
            row["audit"] = audited(folder / "whole.jsonl", folder / "other.jsonl")
            row["noticed"] = _differs(other, whole) and not row["audit"].startswith("same")
            assert row["noticed"], "a run of another seed passes for the same"
    wrong = [name for name, row in notes.found.items() if "error" in row]
    most = max((row.get("max", 0.0) for row in notes.found.values()), default=0.0)
    notes.put(
        headline=f"{len(pairs)} runs interrupted and taken up elsewhere; pictures within {most:.1f}/255; "
        f"wrong: {', '.join(wrong) or 'none'}"
    )


def interrupted(dataset: Dataset, first: Place, second: Place, audit: Path) -> Run:
    """Stop a run after 2 batches of its second epoch, and go on with its state elsewhere."""
    found = Run()
    with recorded(found):
        state = run(dataset, first, found, audit, epochs=2, last_steps=2)
        state = json.loads(json.dumps(state))
        # What was drawn ahead of the interruption does not count; it is drawn again.
        found.draws = {at: drawn for at, drawn in found.draws.items() if at in found.indices}
        run(dataset, second, found, audit, epochs=1, state=state)
    return found


def run(
    dataset: Dataset,
    place: Place,
    found: Run,
    audit: Path,
    *,
    epochs: int,
    last_steps: int | None = None,
    state: Any = None,
    seed: int = 0,
) -> Any:
    """Take epochs, of the last one so many steps, add to what was found, and return the state.

    Raises:
        AssertionError: A position comes again.
    """
    options: dict[str, Any] = {"decoder": place.decoder, "device": place.device, "engine": "fused"}
    options |= {"batch_size": place.batch_size, "helper_process": place.helper, "seed": seed}
    options |= {"dtype": torch.float32, "last_batch": "partial", "audit": audit}
    with Loader(dataset, _RECIPE, **options) as loader:
        if state is not None:
            loader.load_state_dict(state)
        for number in range(epochs):
            loop = iter(loader)
            at = loader.state_dict()["consumed"]
            for batch in islice(loop, last_steps if number == epochs - 1 else None):
                for index, image in zip(batch.indices.tolist(), batch.images.cpu(), strict=True):
                    assert (loader.epoch, at) not in found.indices, f"position {at} comes again"
                    found.indices[loader.epoch, at] = index
                    found.images[loader.epoch, at] = image
                    at += 1
        return loader.state_dict()


@contextmanager
def recorded(found: Run) -> Iterator[None]:
    """Write down what the loaders of this process draw."""
    fetch = Fetcher.fetch

    def listening(self: Fetcher, plan: Plan) -> Fetched:
        fetched = fetch(self, plan)
        for row, position in enumerate(plan.positions.tolist()):
            drawn = (int(fetched.indices[row]), _digest(fetched, row))
            found.draws[plan.epoch, position] = drawn
        return fetched

    with mock.patch.object(Fetcher, "fetch", listening):
        yield


def _digest(fetched: Fetched, row: int) -> str:
    """A hash of everything that was drawn for a row."""
    drawn = fetched.draws[0].rows(row, row + 1)
    windows = [getattr(drawn.windows, name) for name in ("start", "shape", "resize", "paste")]
    params = [values for one in drawn.params for _, values in sorted(one.items())]
    parts = [np.ascontiguousarray(values).tobytes() for values in (*windows, *params)]
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def compare(found: Run, whole: Run, row: dict[str, Any]) -> None:
    """Fill in a row.

    Raises:
        AssertionError: Other samples, other draws, or pictures beyond the decoders' tolerance.
    """
    assert found.indices == whole.indices, f"other samples: {_first(found.indices, whole.indices)}"
    seen = {at: drawn for at, drawn in found.draws.items() if at in whole.draws}
    expected = {at: whole.draws[at] for at in seen}
    row["draws compared"] = f"{len(seen)} of {len(whole.draws)}"
    assert seen == expected, f"other draws: {_first(seen, expected)}"
    mean = inside = most = 0.0
    neighbour = list(whole.images.values())[-1]
    control = 0
    for at, image in found.images.items():
        gap = (image - whole.images[at]).abs() * 255
        middle = gap[:, _EDGE:-_EDGE, _EDGE:-_EDGE]
        mean, inside = max(mean, float(gap.mean())), max(inside, float(middle.max()))
        most = max(most, float(gap.max()))
        control += float((image - neighbour).abs().mean()) * 255 > _MEAN
        neighbour = whole.images[at]
    row |= {"mean": round(mean, 3), "max inside": round(inside, 2), "max": round(most, 2)}
    assert mean < _MEAN and inside <= _INSIDE and most <= _MOST, (  # noqa: PT018
        f"pictures differ by {mean:.2f} on average (allowed {_MEAN}), {inside:.1f} inside ({_INSIDE}), "
        f"{most:.1f} at the edge ({_MOST})"
    )
    assert control > 0.9 * len(found.images), f"control: only {control} pictures differ from the one before"  # fmt: skip


def _differs(other: Run, whole: Run) -> bool:
    return other.indices != whole.indices and set(other.draws.values()) != set(whole.draws.values())


def _first(found: dict[Any, Any], expected: dict[Any, Any]) -> str:
    """Where two dictionaries part first, for an error."""
    for at in sorted(found.keys() | expected.keys()):
        if found.get(at) != expected.get(at):
            return f"epoch and position {at}: {found.get(at)} instead of {expected.get(at)}"
    return "nowhere"


def audited(first: Path, second: Path) -> str:
    """What ``gpu-aug audit`` says of two runs in its last line."""
    histories = read_history(str(first)), read_history(str(second))
    return report(histories, compare_histories(*histories))[-1]
