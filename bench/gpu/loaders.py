"""Steps: loaders by decoder and number of threads, alone and in front of a training step of ResNet-50; DALI's own pipeline."""

import itertools
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bench.gpu.contenders import (
    Decoder,
    dali_batches,
    endless,
    loader_for,
    resident_batch,
    training_step,
)
from bench.gpu.photographs import find_jpegs, photographs, temporary_files
from bench.gpu.rows import Row, Rows
from bench.gpu.scale import Scale, measure_rate
from bench.timing import Turn, measure_in_turns, ratio, synchronise, take_turn
from dali_pipes import Batch

LOADS = (0.65, 1.0, 0.0)
"""Shares of the JPEG engine for DALI's own pipeline: DALI's default, the most, none."""

# Passes over the files before the clock: seek points are then stored, and pools have their size.
_PASSES = 4
_BATCHES_MIN = 16  # before the clock, more than loaders and DALI prepare ahead
_SECONDS = 2.0  # of a turn: shorter ones measure how queues fill and drain
_ROUNDS = 2


@dataclass(frozen=True)
class Case:
    """A loader to measure.

    Attributes:
        decoder: Its decoder.
        threads: `num_threads`; None leaves the choice to the loader.
        options: Further arguments of `Loader`.
        has_step: Whether it is measured in front of the training step, too.
        data: "photographs" (as given), or "500x375" (one size, cut out of them).
    """

    decoder: Decoder
    threads: int | None
    options: Mapping[str, Any] = field(default_factory=dict)
    has_step: bool = True
    data: str = "photographs"

    @property
    def title(self) -> str:
        """First part of the names of its rows."""
        threads = "threads auto" if self.threads is None else f"{self.threads} threads"
        further = [f"{name} {value}" for name, value in self.options.items()]
        return ", ".join([f"{self.decoder}+fused", threads, *further, self.data])


CASES: Mapping[str, Sequence[Case]] = {
    "a": (
        Case("cuda", 16), Case("cpu", 16), Case("cuda", None), Case("cuda", 8), Case("cpu", 8),
        Case("cuda", 2, has_step=False), Case("cpu", 2, has_step=False), Case("cuda", 16, data="500x375", has_step=False),
        Case("cpu", None, has_step=False), Case("cuda", 16, {"cache": "device"}, has_step=False),
    ),
    "b": (
        Case("dali", 16), Case("dali", None), Case("dali", 8, has_step=False), Case("dali", 2, has_step=False),
        Case("dali", 16, {"hw_decoder_load": 0.65}, has_step=False),
        Case("dali", 16, {"hw_decoder_load": 0.0}, has_step=False), Case("cuda", None, has_step=False),
    ),
}  # fmt: skip
"""By part, the most informative first."""


def loaders(scale: Scale, data: Path, rows: Rows) -> None:
    """Measure the decoders that need no DALI."""
    _measure_all(scale, data, rows, CASES["a"])


def loaders_dali(scale: Scale, data: Path, rows: Rows) -> None:
    """Measure the decoder of DALI, and "cuda" on the same machine."""
    _measure_all(scale, data, rows, CASES["b"])


def dali_own(scale: Scale, data: Path, rows: Rows) -> None:
    """Measure DALI's own pipeline, as a user would write it for ImageNet."""
    for load in LOADS if scale.on_gpu else LOADS[:1]:
        with (
            rows.measure(f"DALI's own pipeline, hw_decoder_load {load}") as row,
            closing(dali_batches(data, scale, load)) as batches,
        ):
            take = partial(next, batches)
            measure_rate(row, take, scale, discard=_BATCHES_MIN, seconds=3.0, turns=1)


def _measure_all(scale: Scale, data: Path, rows: Rows, cases: Sequence[Case]) -> None:
    size, (count, _) = next(iter(scale.pictures.items()))
    bench = _Bench(scale, rows, training_step(scale), resident_batch(scale))
    with rows.measure("ResNet-50 without a loader") as row:
        for _ in range(8):
            bench.step(bench.resident)
        row.put_runs([bench.train(itertools.repeat(bench.resident), _SECONDS).rate])
    with temporary_files(photographs(data, size, count)) as cut:
        for case in cases if scale.on_gpu else [cases[0], cases[-1]]:
            with rows.measure(f"{case.title}, alone") as row:
                bench.measure(case, cut if case.data == "500x375" else data, row)


@dataclass(frozen=True)
class _Bench:
    """Measures loaders, alone and in front of a training step.

    Attributes:
        scale: Device and sizes.
        rows: Results.
        step: The training step.
        resident: A batch that stays on the device.
    """

    scale: Scale
    rows: Rows
    step: Callable[[torch.Tensor], None]
    resident: torch.Tensor

    def measure(self, case: Case, folder: Path, row: Row) -> None:
        """Fill in the row of a loader alone, and write a second one for what the training step loses to waiting."""
        options: dict[str, Any] = {"batch_size": self.scale.batch_size, **case.options}
        if not self.scale.on_gpu:
            for name in ("cache", "hw_decoder_load"):  # a CPU has neither
                options.pop(name, None)
        options["num_threads"] = case.threads
        began = time.perf_counter()
        with loader_for(self.scale, folder, case.decoder, **options) as loader:
            batches = endless(loader)
            next(batches)
            row.facts["seconds to the first batch"] = round(time.perf_counter() - began, 2)
            passes = _PASSES * len(find_jpegs(folder)) // self.scale.batch_size
            for _ in range(max(passes, _BATCHES_MIN) if self.scale.on_gpu else 2):
                next(batches)
            self.measure_alone(batches, row)
            row.facts["explain"] = loader.explain()[:300]
            if case.has_step:
                with self.rows.measure(f"{case.title}, lost to waiting", "%") as lost:
                    self.measure_lost((batch.images for batch in batches), lost)

    def measure_alone(self, batches: Iterator[Batch], row: Row) -> None:
        """Fill in images per second and what they cost: cores in use, hand-overs between threads."""
        before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
        images = (batch.images for batch in batches)
        measured = measure_rate(
            row, partial(next, images), self.scale, discard=0, seconds=_SECONDS, turns=1
        )
        switches = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - before
        [turn] = measured.turns
        row.facts["cores of this process"] = round(turn.cpu_seconds / turn.seconds, 2)
        row.facts["CPU us per image"] = round(1e6 * measured.cpu_seconds_per_item, 1)
        row.facts["voluntary switches per image"] = round(switches / turn.items, 2)

    def measure_lost(self, images: Iterator[torch.Tensor], row: Row) -> None:
        """Fill in the percentage by which the training step is slower behind a loader than on a batch that stays on the device."""
        found = measure_in_turns(
            {
                "behind": partial(self.train, images),
                "without": lambda seconds: self.train(itertools.repeat(self.resident), seconds / 2),
            },
            seconds=_SECONDS,
            rounds=_ROUNDS,
        )
        row.facts["images/s"] = list(map(round, found["behind"].rates))
        row.facts["images/s without"] = list(map(round, found["without"].rates))
        shares = ratio(found["behind"], found["without"]).runs
        row.put_runs([100 * (1 - share) for share in shares])

    def train(self, images: Iterator[torch.Tensor], seconds: float) -> Turn:
        """Take one turn of training."""
        return take_turn(
            partial(next, images),
            seconds=seconds if self.scale.on_gpu else self.scale.seconds,
            discard=2,
            work=self.step,
            finish=partial(synchronise, self.scale.device),
        )
