"""The batch stage alone, on photographs that are decoded and cut already: one float batch, many ways."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from bench.cli.arguments import check_writable
from bench.compare.contestant import Unable
from bench.micro.batch_peers import albumentations_work, kornia_module, torchvision_work
from bench.micro.cases import ENGINES, Case, compiled, on_tensor, ours
from bench.micro.pictures import load_pictures
from bench.micro.turns import Turns, Work, take_turns
from bench.output.errors import BenchError
from bench.output.results import save_result
from bench.output.text import print_plain, result_table, wide_console
from bench.timing.limits import one_thread
from gpu_aug import (
    ColorJitter,
    GaussianBlur,
    Normalize,
    RandomAffine,
    RandomErasing,
    Recipe,
)

RECIPE = Recipe(
    [
        RandomAffine(15.0, (0.1, 0.1), (0.9, 1.1)),
        ColorJitter(0.4, 0.4, 0.4, 0.1),
        GaussianBlur(7, (0.1, 2.0), p=0.0),
        RandomErasing(p=0.5),
        Normalize(),
    ]
)
_COMPILE_SECONDS_MAX = 300.0
MEANING = (
    "uint8 photographs in memory to one normalised batch in memory: affine, colour jitter, a blur that no image gets, erasing half of "
    "the images, normalising; on one CPU thread, or on the GPU. ms per image, median of interleaved turns."
)


@dataclass(frozen=True)
class BatchSettings:
    """Sizes and durations of the measurement.

    Attributes:
        batch_size: Images.
        side: Height and width in pixels.
        turns: Turns per contestant.
        seconds: Per turn.
        with_compiled: Whether to try torch.compile.
    """

    batch_size: int = 64
    side: int = 224
    turns: int = 5
    seconds: float = 1.0
    with_compiled: bool = True

    def __post_init__(self) -> None:
        if self.batch_size < 1 or self.side < 8:
            raise BenchError(
                f"batch_size must be 1 or more and side 8 or more, got {self.batch_size} and "
                f"{self.side}: leave them out to get 64 and 224"
            )


QUICK = BatchSettings(batch_size=2, side=32, turns=1, seconds=0.01, with_compiled=False)


@dataclass(frozen=True)
class BatchResult:
    """The measurements on one device.

    Attributes:
        device: "cpu" or "cuda".
        turns: Seconds per batch, by name, fastest first.
        absent: Why other contestants have none.
    """

    device: str
    turns: dict[str, Turns]
    absent: dict[str, str]


def batch_and_show(source: str | None, settings: BatchSettings, *, json_path: Path | None) -> None:
    """Measure on the CPU and, where there is one, on the GPU; print a table each and write them down.

    Raises:
        BenchError: The result cannot be written, or there are no photographs.
    """
    check_writable(json_path)
    console = wide_console()
    pictures = load_pictures(source, settings.batch_size, settings.side)
    devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    results = []
    for device in devices:
        with console.status(f"batch stage on {device}"), one_thread():
            results.append(measure_batch(Case(pictures, torch.device(device)), settings))
        show_batch(results[-1], settings, console)
    told = {"data": source or "scikit-image's photographs", **vars(settings)}
    save_result(
        json_path,
        console,
        "bench batch",
        {**told, "recipe": RECIPE.to_dict()},
        [row for result in results for row in _rows(result, settings)],
        absent=[
            {"device": result.device, "name": name, "reason": reason}
            for result in results
            for name, reason in result.absent.items()
        ],
        meaning=MEANING,
    )


def measure_batch(case: Case, settings: BatchSettings) -> BatchResult:
    """Time in turns each contestant that supports the recipe on this device."""
    works: dict[str, Work] = {}
    absent: dict[str, str] = {}
    for name, make in contestants(case, settings).items():
        try:
            work = make()
            work()
        except Unable as reason:
            absent[name] = str(reason)
        except Exception as error:  # noqa: BLE001 - a library may raise anything; the result names it
            absent[name] = f"{type(error).__name__}: {str(error)[:120]}"
        else:
            works[name] = work
    turns = take_turns(works, turns=settings.turns, seconds=settings.seconds, finish=case.finish)
    ranked = dict(sorted(turns.items(), key=lambda item: item[1].median))
    return BatchResult(case.device.type, ranked, absent)


def contestants(case: Case, settings: BatchSettings) -> dict[str, Callable[[], Work]]:
    """The contestants by name: functions that make the work to time, or raise Unable."""
    everyone: dict[str, Callable[[], Work]] = {
        f"gpu-aug/{engine}": partial(ours, RECIPE, case, engine=engine, dtype=torch.float32)
        for engine in ENGINES
    }
    everyone |= {
        "gpu-aug/fused, bfloat16": partial(ours, RECIPE, case, "fused", dtype=torch.bfloat16),
        "albumentations": lambda: albumentations_work(case),
        "kornia": lambda: on_tensor(kornia_module(case.device), case.floats),
        "torchvision v2": lambda: torchvision_work(case),
    }
    if settings.with_compiled:
        everyone["kornia compiled"] = lambda: compiled(
            kornia_module(case.device), case.floats, seconds_max=_COMPILE_SECONDS_MAX
        )
    return everyone


def show_batch(result: BatchResult, settings: BatchSettings, console: Console) -> None:
    """Print the table of one device, each beside the fastest of the others."""
    table = result_table(
        f"batch stage on {result.device}: {settings.batch_size} photographs at "
        f"{settings.side}x{settings.side}",
        MEANING,
        "what",
        *("ms per image", "images/s", "range", "x kornia", "x albumentations"),
    )
    for row in _rows(result, settings):
        runs: Any = row["milliseconds"]
        table.add_row(
            str(row["name"]),
            f"{runs['median']:.3f}",
            f"{1000 / runs['median']:.0f}",
            f"{runs['min']:.3f}-{runs['max']:.3f}",
            _ratio(result, str(row["name"]), "kornia"),
            _ratio(result, str(row["name"]), "albumentations"),
            style="green" if str(row["name"]).startswith("gpu-aug") else "",
        )
    console.print(table)
    for name, reason in result.absent.items():
        print_plain(console, f"{name} took no part: {reason}", "yellow")


def _rows(result: BatchResult, settings: BatchSettings) -> list[dict[str, object]]:
    return [
        {
            "name": name,
            "device": result.device,
            "milliseconds": turns.to_dict(1e-3 * settings.batch_size),
        }
        for name, turns in result.turns.items()
    ]


def _ratio(result: BatchResult, name: str, other: str) -> str:
    if other not in result.turns:
        return "-"
    return f"{result.turns[other].median / result.turns[name].median:.2f}"
