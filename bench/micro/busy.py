"""The loader beside a trainer that holds Python's lock all the time: in the consuming thread, and in a second thread."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch
from rich.table import Table

from bench.cli.arguments import check_writable, recipe_from
from bench.compare.compare import Settings
from bench.compare.images import collect
from bench.compare.timer import Rate, time_slice
from bench.output.results import save_result
from bench.output.text import result_table, wide_console
from dali_pipes import Loader
from dali_pipes.preview.pairs import pair_name

ALONE, CONSUMER, SECOND = "alone", "busy consumer", "busy second thread"

# Of the time that a batch takes alone, which the consumer computes before it asks again.
_SHARE = 0.9
_NUM_STEPS = 1000  # of pure Python between two looks at the clock, some 30 us
_NUM_DISCARD = 6


def busy_and_show(
    source: str,
    recipe: str,
    settings: Settings,
    *,
    options: Mapping[str, Any],
    json_path: Path | None,
) -> None:
    """Measure a loader alone and beside busy Python, in turns; print the rates and write them down.

    Args:
        source: A source as for `readers.open_dataset`.
        recipe: A preset or a file.
        settings: How long, how often, how big; one thread when it names no number.
        options: More arguments of `dali_pipes.Loader`: decoder, engine and helper_process.
        json_path: Where the result goes as well.

    Raises:
        readers.ReadersError: There is nothing to read.
        BenchError: Nothing there decodes.
        dali_pipes.LoaderError: There is no such device, decoder or engine.
    """
    check_writable(json_path)
    console = wide_console()
    given: dict[str, Any] = {
        "batch_size": settings.batch_size,
        "device": settings.device,
        "seed": settings.seed,
        "num_threads": settings.num_threads or 1,
        **options,
    }
    with ExitStack() as stack:
        stack.enter_context(console.status("measuring"))
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="gpu-aug-")))
        dataset = collect(source, folder).dataset
        loader = stack.enter_context(
            Loader(dataset, recipe_from(recipe), dtype=torch.bfloat16, **given)
        )
        batches = iter(loader)
        rates = measure(
            lambda: next(batches).images,
            seconds=settings.seconds / settings.rounds,
            rounds=settings.rounds,
        )
    kept = kept_shares(rates)
    where = " in a helper process" if options["helper_process"] else ""
    title = (
        f"{pair_name(loader.decoder, loader.engine)} on {loader.device}, {recipe}, "
        f"{given['num_threads']} decoding and augmenting threads{where}"
    )
    console.print(_table(rates, kept, title))
    told = {**given, "dtype": "bfloat16", "data": source, "recipe": recipe}
    told |= {"decoder": loader.decoder, "engine": loader.engine}
    rows = [
        {"name": name, "images_per_second": rate.to_dict(), "kept": round(kept[name], 3)}
        for name, rate in rates.items()
    ]
    save_result(json_path, console, "bench busy", told, rows)


def measure(
    next_images: Callable[[], torch.Tensor], *, seconds: float, rounds: int
) -> dict[str, Rate]:
    """Take batches alone, with a busy consumer and beside a busy thread, in turns.

    Args:
        next_images: Hands over a batch; more often than all turns need.
        seconds: Length of each turn.
        rounds: Turns of each kind.
    """
    runs: dict[str, list[float]] = {ALONE: [], CONSUMER: [], SECOND: []}
    for _ in range(rounds):
        alone = _rate(next_images, seconds)
        runs[ALONE].append(alone)
        busy_seconds = _SHARE * len(next_images()) / alone
        runs[CONSUMER].append(_rate(lambda: _after(busy_seconds, next_images), seconds))  # noqa: B023
        with _busy_thread():
            runs[SECOND].append(_rate(next_images, seconds))
    return {name: Rate(tuple(own)) for name, own in runs.items()}


def kept_shares(rates: dict[str, Rate]) -> dict[str, float]:
    """Which part of the speed alone is kept: the median of the shares within each round."""
    alone = rates[ALONE].runs
    return {
        name: median(run / other for run, other in zip(rate.runs, alone, strict=True))
        for name, rate in rates.items()
    }


def _rate(next_images: Callable[[], torch.Tensor], seconds: float) -> float:
    turn = time_slice(next_images, seconds=seconds, discard=_NUM_DISCARD, finish=lambda: None)
    return turn.images_per_second


def _after(seconds: float, next_images: Callable[[], torch.Tensor]) -> torch.Tensor:
    """Compute in pure Python for so long, as a trainer might, and then ask for a batch."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        _compute()
    return next_images()


@contextmanager
def _busy_thread() -> Iterator[None]:
    """Let another thread run pure Python without a pause."""
    done = threading.Event()

    def work() -> None:
        while not done.is_set():
            _compute()

    thread = threading.Thread(target=work, name="bench-compute", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _compute() -> int:
    total = 0
    for number in range(_NUM_STEPS):
        total += number & 3
    return total


def _table(rates: dict[str, Rate], kept: dict[str, float], title: str) -> Table:
    table = result_table(
        title,
        f"busy consumer: it computes for {_SHARE:.0%} of a batch's time before it takes the next; "
        "kept: median over rounds of the share of the speed alone",
        "main program",
        *("images/s", "runs", "kept"),
    )
    for name, rate in rates.items():
        spread = f"{min(rate.runs):.0f}-{max(rate.runs):.0f}"
        table.add_row(name, f"{rate.median:.0f}", spread, f"{kept[name]:.0%}")
    return table
