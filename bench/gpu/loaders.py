"""Steps: our loaders by decoder and number of threads, alone and in front of a training step of ResNet-50."""

import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from bench.compare.timer import time_slice
from bench.gpu.our_loader import Decoder, endless, loader_for
from bench.gpu.photographs import jpegs_in, photographs, write_files
from bench.gpu.rows import Row, Rows
from bench.gpu.scale import Scale, finish
from bench.gpu.training import Step, resident_batch, training_step
from bench.timing.usage import Busy
from dali_pipes import Batch

IDEAL = "ResNet-50 without a loader"
"""The training step on a batch that lies on the device."""

_PASSES = (
    4  # over the files before the clock: seek points are then stored, and pools have their size
)
_BATCHES_MIN = 16  # before the clock, so that what was prepared ahead is used up
_SECONDS = 2.0  # of a slice: shorter ones measure how queues fill and drain
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
        """The name in front of the comma of its rows."""
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


def _measure_all(scale: Scale, data: Path, rows: Rows, cases: Sequence[Case]) -> None:
    size, (count, _) = next(iter(scale.pictures.items()))
    step, lent = training_step(scale), resident_batch(scale)
    with TemporaryDirectory(prefix="gpu-aug-") as root:
        cut = write_files(Path(root) / "files", photographs(data, size, count))
        for _ in range(8 if scale.on_gpu else 1):
            step(lent)
        with rows.measure(IDEAL) as row:
            row.put_runs([_rate(partial(_train, step, lambda: lent), scale)])
        for case in cases if scale.on_gpu else [cases[0], cases[-1]]:
            folder = cut if case.data == "500x375" else data
            with rows.measure(f"{case.title}, alone") as row:
                _measure(scale, folder, case, row, rows, step, lent)


def _measure(
    scale: Scale, folder: Path, case: Case, row: Row, rows: Rows, step: Step, lent: torch.Tensor
) -> None:
    """Fill in the row of a loader alone, and write a second one for what the training step loses to waiting."""
    options: dict[str, Any] = {"batch_size": scale.batch_size, **case.options}
    if not scale.on_gpu:
        for name in ("cache", "hw_decoder_load"):  # a CPU has neither
            options.pop(name, None)
    began = time.perf_counter()
    with loader_for(scale, folder, case.decoder, num_threads=case.threads, **options) as loader:
        batches = endless(loader)
        next(batches)
        row.facts["seconds to the first batch"] = round(time.perf_counter() - began, 2)
        passes = _PASSES * len(jpegs_in(folder)) // scale.batch_size
        for _ in range(max(passes, _BATCHES_MIN) if scale.on_gpu else 2):
            next(batches)
        _alone(row, batches, scale)
        row.facts["explain"] = loader.explain()[:300]
        if case.has_step:
            with rows.measure(f"{case.title}, lost to waiting", "%") as lost:
                _lost(lost, batches, step, lent, scale)


def _alone(row: Row, batches: Iterator[Batch], scale: Scale) -> None:
    """Images per second, and what they cost: cores in use, hand-overs between threads."""
    before, clock = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    images = 0

    def counted() -> torch.Tensor:
        nonlocal images
        taken = next(batches).images
        images += len(taken)
        return taken

    with Busy(scale.device) as busy:
        row.put_runs([_rate(counted, scale)])
    after, wall = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter() - clock
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    row.facts |= busy.found
    row.facts["cores of this process"] = round(cpu / wall, 2)
    row.facts["CPU us per image"] = round(1e6 * cpu / images, 1)
    row.facts["voluntary switches per image"] = round((after.ru_nvcsw - before.ru_nvcsw) / images, 2)  # fmt: skip


def _lost(row: Row, batches: Iterator[Batch], step: Step, lent: torch.Tensor, scale: Scale) -> None:
    """Percent by which the training step is slower behind the loader; the step without a loader has its turn in each round."""
    own, ideal = [], []
    for _ in range(_ROUNDS):
        own.append(_rate(partial(_train, step, lambda: next(batches).images), scale))
        ideal.append(_rate(partial(_train, step, lambda: lent), scale, share=0.5))
    row.facts |= {"images/s": list(map(round, own)), "images/s without": list(map(round, ideal))}
    row.put_runs([100 * (1 - one / other) for one, other in zip(own, ideal, strict=True)])


def _train(step: Step, take: Callable[[], torch.Tensor]) -> torch.Tensor:
    images = take()
    step(images)
    return images


def _rate(call: Callable[[], torch.Tensor], scale: Scale, share: float = 1.0) -> float:
    seconds = share * (_SECONDS if scale.on_gpu else scale.seconds)
    wait = partial(finish, scale.device)
    return time_slice(call, seconds=seconds, discard=2, finish=wait).images_per_second
