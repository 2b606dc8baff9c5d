"""Steps that measure loaders and DALI's own pipeline, alone and with a training step of ResNet-50."""

import itertools
import resource
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
from bench.gpu.rows import Row, Rows
from bench.gpu.scale import Scale, find_jpegs, measure_rate, photographs, temporary_files
from bench.timing import Turn, measure_in_turns, ratio, synchronise, take_turn

LOADS = (0.65, 1.0, 0.0)
"""Shares of the JPEG engine in DALI's own pipeline: DALI's default, all and none."""

# Passes over the files before the measurement, so that seek points are stored and pools have their final size.
_PASSES = 4
_BATCHES_MIN = 16  # batches before the measurement: more than loaders and DALI prepare ahead
_SECONDS = 2.0  # of a turn: shorter turns would measure how queues fill and drain
_ROUNDS = 2


@dataclass(frozen=True)
class Case:
    """A loader to measure.

    Attributes:
        decoder: The loader's decoder.
        threads: The loader's `num_threads`; None lets the loader choose.
        options: Further arguments of `Loader`.
        has_step: Whether the loader is also measured with the training step.
        data: "photographs" (as given), or "500x375" (crops of one size).
    """

    decoder: Decoder
    threads: int | None
    options: Mapping[str, Any] = field(default_factory=dict)
    has_step: bool = True
    data: str = "photographs"

    @property
    def title(self) -> str:
        """First part of the names of the case's rows."""
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
"""Cases by part, the most informative first."""


def dali_own(scale: Scale, data: Path, rows: Rows) -> None:
    """Measure DALI's own pipeline, as a user would write it for ImageNet."""
    for load in LOADS if scale.on_gpu else LOADS[:1]:
        with (
            rows.measure(f"DALI's own pipeline, hw_decoder_load {load}") as row,
            closing(dali_batches(data, scale, load)) as batches,
        ):
            measure_rate(
                row, partial(next, batches), scale, discard=_BATCHES_MIN, seconds=3.0, turns=1
            )


def _measure_all(scale: Scale, data: Path, rows: Rows, *, part: str) -> None:
    """Measure the loaders of one part, and the training step without a loader."""
    size, (count, _) = next(iter(scale.pictures.items()))
    train = partial(_train, scale, training_step(scale))
    resident = itertools.repeat(resident_batch(scale))
    with rows.measure("ResNet-50 without a loader") as row:
        train(resident, _SECONDS / 4)  # the first steps choose convolution algorithms
        row.put_runs([train(resident, _SECONDS).rate])
    with temporary_files(photographs(data, size, count)) as cut:
        for case in CASES[part] if scale.on_gpu else [CASES[part][0], CASES[part][-1]]:
            folder = cut if case.data == "500x375" else data
            # These options do not exist on a CPU: the cache on the device, and hw_decoder_load.
            options: dict[str, Any] = dict(case.options) if scale.on_gpu else {}
            options |= {"batch_size": scale.batch_size, "num_threads": case.threads}
            with (
                rows.measure(f"{case.title}, alone") as row,
                loader_for(scale, folder, case.decoder, **options) as loader,
            ):
                batches = (batch.images for batch in endless(loader))
                next(batches)
                passes = _PASSES * len(find_jpegs(folder)) // scale.batch_size
                for _ in range(max(passes, _BATCHES_MIN) if scale.on_gpu else 2):
                    next(batches)
                _measure_alone(scale, batches, row)
                row.facts["explain"] = loader.explain()[:300]
                if case.has_step:
                    with rows.measure(f"{case.title}, lost to waiting", "%") as lost:
                        _measure_lost(train, batches, resident, lost)


loaders = partial(_measure_all, part="a")
"""The step that measures the decoders without DALI."""

loaders_dali = partial(_measure_all, part="b")
"""The step that measures the decoder "dali", and "cuda" on the same machine."""


def _measure_alone(scale: Scale, batches: Iterator[torch.Tensor], row: Row) -> None:
    """Fill in images per second and their cost: cores in use, and context switches."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
    [turn] = measure_rate(
        row, partial(next, batches), scale, discard=0, seconds=_SECONDS, turns=1
    ).turns
    switches = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - before
    row.facts |= {
        "cores of this process": round(turn.cpu_seconds / turn.seconds, 2),
        "CPU us per image": round(1e6 * turn.cpu_seconds / turn.items, 1),
        "voluntary switches per image": round(switches / turn.items, 2),
    }


def _measure_lost(
    train: Callable[[Iterator[torch.Tensor], float], Turn],
    batches: Iterator[torch.Tensor],
    resident: Iterator[torch.Tensor],
    row: Row,
) -> None:
    """Fill in the percentage by which the training step is slower with a loader than with a batch that stays on the device."""
    found = measure_in_turns(
        {
            "behind": partial(train, batches),
            "without": lambda seconds: train(resident, seconds / 2),
        },
        seconds=_SECONDS,
        rounds=_ROUNDS,
    )
    behind, without = found["behind"], found["without"]
    row.facts |= {
        "images/s": list(map(round, behind.rates)),
        "images/s without": list(map(round, without.rates)),
    }
    row.put_runs([100 * (1 - share) for share in ratio(behind, without).runs])


def _train(
    scale: Scale,
    step: Callable[[torch.Tensor], None],
    batches: Iterator[torch.Tensor],
    seconds: float,
) -> Turn:
    """Train for some seconds, and return the measured turn (batches and time)."""
    return take_turn(
        partial(next, batches),
        seconds=seconds if scale.on_gpu else scale.seconds,
        discard=2,
        work=step,
        finish=partial(synchronise, scale.device),
    )
