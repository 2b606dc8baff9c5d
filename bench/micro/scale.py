"""How the loader's cost grows with threads, image size, batch size, dataset length and time."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from bench.cli.arguments import check_writable, recipe_from
from bench.compare.images import Repeated, require_sound
from bench.compare.timer import Rate
from bench.micro.lock import with_lock_clock
from bench.micro.overhead import measure_held
from bench.micro.scale_parts import (
    Build,
    Start,
    growth_mib,
    measure_start,
    photographs_of,
    predicted_rate,
    race_loaders,
    watch_memory,
)
from bench.micro.scale_plot import draw_scale, require_matplotlib
from bench.micro.scale_result import ScaleResult, ScaleSettings
from bench.micro.scale_show import show_scale
from bench.output.errors import BenchError
from bench.output.results import save_result
from bench.output.text import print_written, wide_console
from dali_pipes.choose import choose
from gpu_aug import CenterCrop, HorizontalFlip, Recipe, Views
from readers import Dataset, Sample, open_dataset
from readers.cores import usable_cores

Progress = Callable[[str], None]

_MAX_SAMPLES = 256


def scale_and_show(
    source: str,
    recipe: str,
    settings: ScaleSettings,
    *,
    json_path: Path | None,
    plot_path: Path | None,
) -> None:
    """Measure how cost grows; print tables, write them down and draw them.

    Raises:
        BenchError: An argument that cannot work, or nothing decodes.
    """
    check_writable(json_path)
    check_writable(plot_path)
    if plot_path is not None:
        if plot_path.suffix.lower() != ".svg":
            raise BenchError(f"the plot's name must end in .svg, got {plot_path}")
        require_matplotlib()
    parsed = recipe_from(recipe)
    if isinstance(parsed, Views):
        raise BenchError(f"the recipe must make one view, got {len(parsed)}: give a Recipe")
    console = wide_console()
    with console.status("starting") as status:
        result = measure_scale(source, parsed, settings, status.update)
    show_scale(result, console)
    if plot_path is not None:
        draw_scale(result, plot_path)
        print_written(console, plot_path)
    save_result(
        json_path, console, "bench scale", result.settings, _rows(result), **_others(result)
    )


def measure_scale(
    source: str, recipe: Recipe, settings: ScaleSettings, progress: Progress
) -> ScaleResult:
    """Measure one part after the other.

    Raises:
        readers.ReadersError: There is nothing to read.
        BenchError: Nothing there decodes.
    """
    original = open_dataset(source)
    samples, _ = require_sound(source, original, most=_MAX_SAMPLES)
    dataset = Repeated(original, np.array([sample.index for sample in samples], np.int64))
    choice = choose(settings.device, settings.decoder, settings.engine)  # type: ignore[arg-type]
    build = Build(
        recipe,
        str(choice.device),
        choice.decoder,
        choice.engine,
        settings.batch_size,
        usable_cores(),
    )
    result = ScaleResult(_described(source, settings, build))
    progress("threads")
    _threads(result, dataset, build, settings)
    progress("batch size")
    result.batch_sizes = race_loaders(
        {size: partial(build.loader, dataset, batch_size=size) for size in settings.batch_sizes},
        rounds=settings.rounds,
        seconds=settings.seconds,
    )
    with TemporaryDirectory(prefix="gpu-aug-") as folder:
        progress("image size")
        result.megapixels = _sizes(samples, Path(folder), build, settings)
        progress("dataset length")
        result.lengths = _lengths(original, samples, build, settings)
        progress("memory")
        result.memory = _memory(samples, Path(folder), build, settings)
    return result


def _threads(result: ScaleResult, dataset: Dataset, build: Build, settings: ScaleSettings) -> None:
    powers = tuple(2**power for power in range(10) if 2**power <= usable_cores())
    counts = settings.threads or powers
    result.threads = race_loaders(
        {number: partial(build.loader, dataset, num_threads=number) for number in counts},
        rounds=settings.rounds,
        seconds=settings.seconds,
    )
    with suppress(BenchError):  # Linux on x86-64 alone
        result.serial_seconds = with_lock_clock(measure_held, dataset, settings.held_epoch)
    one = result.threads[counts[0]].median
    result.predicted = {
        number: predicted_rate(one, result.serial_seconds, number)
        for number in settings.predicted_threads
    }


def _sizes(
    samples: list[Sample], folder: Path, build: Build, settings: ScaleSettings
) -> dict[float, Rate]:
    datasets = {
        size: photographs_of(samples, size, folder / f"{size:g}") for size in settings.megapixels
    }
    return race_loaders(
        {size: partial(build.loader, dataset) for size, dataset in datasets.items()},
        rounds=settings.rounds,
        seconds=settings.seconds,
    )


def _lengths(
    original: Dataset, samples: list[Sample], build: Build, settings: ScaleSettings
) -> dict[int, Start]:
    picks = np.array([sample.index for sample in samples], np.int64)
    measure_start(
        build, Repeated(original, picks)
    )  # so that no length pays for what is loaded once
    return {
        length: measure_start(build, Repeated(original, picks, length=length))
        for length in settings.lengths
    }


def _memory(
    samples: list[Sample], folder: Path, build: Build, settings: ScaleSettings
) -> list[tuple[int, float]]:
    small = photographs_of(samples, 0.004, folder / "small")
    quick = Build(
        Recipe([CenterCrop(32), HorizontalFlip()]),
        build.device,
        build.decoder,
        "auto",
        batch_size=8,
        num_threads=build.num_threads,
    )
    return watch_memory(quick, small, settings.memory_batches)


def _described(source: str, settings: ScaleSettings, build: Build) -> dict[str, object]:
    return {
        "data": source,
        **vars(settings),
        "recipe": build.recipe.to_dict(),
        "device": build.device,
        "decoder": build.decoder,
        "engine": build.engine,
        "cores": build.num_threads,
    }


def _rows(result: ScaleResult) -> list[dict[str, object]]:
    parts: dict[str, Mapping[int, Rate] | Mapping[float, Rate]] = {
        "threads": result.threads,
        "megapixels": result.megapixels,
        "batch_size": result.batch_sizes,
    }
    return [
        {"varies": name, "value": value, "images_per_second": rate.to_dict()}
        for name, rates in parts.items()
        for value, rate in rates.items()
    ]


def _others(result: ScaleResult) -> dict[str, object]:
    return {
        "serial_seconds_per_image": result.serial_seconds,
        "predicted": [
            {"threads": number, "images_per_second": round(rate, 1)}
            for number, rate in result.predicted.items()
        ],
        "lengths": [{"samples": length, **vars(start)} for length, start in result.lengths.items()],
        "memory_mib": result.memory,
        "memory_growth_mib": growth_mib(result.memory),
    }
