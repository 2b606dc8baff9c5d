"""The points at which the growth of cost is measured, and the results."""

import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from bench.compare.timer import Rate
from bench.micro.scale_parts import Start


@dataclass(frozen=True)
class ScaleSettings:
    """Which points are measured, and how long each.

    Attributes:
        device: As `Loader` takes it.
        decoder: As `Loader` takes it.
        engine: As `Loader` takes it.
        seconds: Measured time per point, over all rounds.
        rounds: Turns of every point.
        batch_size: Where it is not what varies.
        threads: Measured; None is 1, 2, 4 and so on up to the cores.
        predicted_threads: Computed, beyond those.
        megapixels: Sizes of images.
        batch_sizes: Sizes of batches.
        lengths: Lengths of datasets.
        memory_batches: To take while the memory is watched.
        held_epoch: Images of an epoch by which the time under the interpreter lock is measured.
    """

    device: str = "auto"
    decoder: str = "auto"
    engine: str = "auto"
    seconds: float = 6.0
    rounds: int = 3
    batch_size: int = 64
    threads: tuple[int, ...] | None = None
    predicted_threads: tuple[int, ...] = (2, 4, 8, 16, 32, 64)
    megapixels: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0, 8.0, 24.0)
    batch_sizes: tuple[int, ...] = (1, 4, 16, 64, 256)
    lengths: tuple[int, ...] = (10**3, 10**4, 10**5, 10**6, 10**7, 10**8)
    memory_batches: int = 10_000
    held_epoch: int = 2048


QUICK = ScaleSettings(
    seconds=0.02,
    rounds=1,
    batch_size=2,
    threads=(1, 2),
    megapixels=(0.01, 0.02),
    batch_sizes=(1, 2),
    lengths=(10**3, 10**8),
    memory_batches=40,
    held_epoch=128,
)


@dataclass
class ScaleResult:
    """The measurements.

    Attributes:
        settings: What was the same for all.
        threads: Images per second by threads.
        serial_seconds: CPU time per image under the interpreter lock; 0 where that cannot be measured.
        predicted: Images per second by threads, computed.
        megapixels: Images per second by millions of pixels.
        batch_sizes: Images per second by images in a batch.
        lengths: What the start costs by samples.
        memory: MiB of the process by batches taken.
    """

    settings: dict[str, object] = field(default_factory=dict)
    threads: dict[int, Rate] = field(default_factory=dict)
    serial_seconds: float = 0.0
    predicted: dict[int, float] = field(default_factory=dict)
    megapixels: dict[float, Rate] = field(default_factory=dict)
    batch_sizes: dict[int, Rate] = field(default_factory=dict)
    lengths: dict[int, Start] = field(default_factory=dict)
    memory: list[tuple[int, float]] = field(default_factory=list)


def read_scale(path: Path) -> ScaleResult:
    """Read what `gpu-aug bench scale --json` wrote; rates are rounded to a tenth of an image."""
    saved = json.loads(path.read_text())
    rates: dict[str, dict[Any, Rate]] = {"threads": {}, "megapixels": {}, "batch_size": {}}
    for row in saved["rows"]:
        rates[row["varies"]][row["value"]] = Rate(tuple(row["images_per_second"]["runs"]))
    starts = {
        row["samples"]: Start(*(row[one.name] for one in fields(Start))) for row in saved["lengths"]
    }
    return ScaleResult(
        settings=saved["settings"],
        threads=rates["threads"],
        serial_seconds=saved["serial_seconds_per_image"],
        predicted={row["threads"]: row["images_per_second"] for row in saved["predicted"]},
        megapixels=rates["megapixels"],
        batch_sizes=rates["batch_size"],
        lengths=starts,
        memory=[(at, mib) for at, mib in saved["memory_mib"]],
    )
