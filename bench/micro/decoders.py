"""Decoders on images as they are: whole, made smaller, and the crops of a RandomResizedCrop; one thread."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import numpy as np
from rich.console import Console

from bench.cli.arguments import check_writable
from bench.micro.decoder_ways import Task, Way, ways_of
from bench.micro.turns import Turns, take_turns
from bench.output.errors import BenchError
from bench.output.results import save_result
from bench.output.text import result_table, wide_console
from bench.timing.limits import one_thread
from dali_pipes.preview.decodable_samples import sound_samples
from gpu_aug import RandomResizedCrop, Recipe
from readers import Sample, open_dataset, read_header
from readers.image.jpeg_process import jpeg_process

OPENCV = "whole, OpenCV"

_MOST_SAMPLES = 512
_MOST_IMAGES = 32


@dataclass
class Found:
    """What was measured of one kind of files.

    Attributes:
        num_images: How many there were.
        megapixels: Of one of them, on average.
        kilobytes: Of one of them, on average.
        turns: Seconds per image of every way.
        ratios: By way, its time divided by OpenCV's for whole images: the median over rounds.
    """

    num_images: int
    megapixels: float
    kilobytes: float
    turns: dict[str, Turns] = field(default_factory=dict)
    ratios: dict[str, float] = field(default_factory=dict)


def decoders_and_show(source: str, *, seconds: float, rounds: int, json_path: Path | None) -> None:
    """Measure every way on every kind of file there; print the tables and write them down.

    Args:
        source: A source as for `readers.open_dataset`.
        seconds: Measured time per way and kind, over all rounds.
        rounds: Turns of every way.
        json_path: Where the result goes as well.

    Raises:
        BenchError: Nothing there decodes, or a number is not positive.
    """
    check_writable(json_path)
    if not (seconds > 0 and rounds > 0):
        raise BenchError(
            f"seconds and rounds must be greater than 0, got {seconds} and {rounds}: leave them out"
        )
    console = wide_console()
    found = {}
    with console.status("measuring"), one_thread():
        for kind, task in tasks(source).items():
            found[kind] = measure(task, ways_of(kind), seconds=seconds / rounds, rounds=rounds)
    show(found, console)
    settings = {"data": source, "rounds": rounds, "simplejpeg": find_spec("simplejpeg") is not None}
    save_result(json_path, console, "bench decode", settings, _rows(found))


def tasks(source: str) -> dict[str, Task]:
    """Images of each kind, evenly spread, with a random crop of each.

    Raises:
        BenchError: There are none.
    """
    samples, left_out = sound_samples(open_dataset(source), most=_MOST_SAMPLES)
    by_kind: dict[str, list[Sample]] = {}
    for sample in samples:
        by_kind.setdefault(kind_of(bytes(sample.image or b"")), []).append(sample)
    if not by_kind:
        raise BenchError(f"{source} has no image to decode: {left_out[:1] or ['it is empty']}")
    return {kind: _task(some) for kind, some in sorted(by_kind.items())}


def kind_of(data: bytes) -> str:
    """Such as "progressive jpeg" or "png"."""
    name = read_header(data).format
    return f"{jpeg_process(data)} {name}" if name == "jpeg" else name


def _task(samples: Sequence[Sample]) -> Task:
    step = -(-len(samples) // _MOST_IMAGES)
    files = [bytes(sample.image or b"") for sample in samples[::step]]
    headers = [read_header(data) for data in files]
    sizes = np.array([(header.height, header.width) for header in headers], np.int64)
    crops = Recipe([RandomResizedCrop(224)]).draw(0, 0, np.arange(len(files)), sizes).crops
    return Task(files, sizes, np.hstack([crops.start, crops.shape]).astype(np.int64))


def measure(
    task: Task, ways: dict[str, Callable[[Task], Way]], *, seconds: float, rounds: int
) -> Found:
    """Let every way decode all images, in turns.

    Args:
        task: The images.
        ways: OpenCV's is among them.
        seconds: Length of each turn.
        rounds: Turns of every way.
    """
    able = {name: make(task) for name, make in ways.items()}
    for run in able.values():
        run()  # what is compiled at the first call is compiled now
    turns = take_turns(able, turns=rounds, seconds=seconds, finish=lambda: None)
    count = len(task.files)
    per_image = {name: Turns(tuple(run / count for run in turns[name].runs)) for name in turns}
    return Found(
        count,
        float(task.sizes.prod(axis=1).mean() / 1e6),
        float(np.mean([len(data) for data in task.files]) / 1e3),
        per_image,
        {name: _ratio(per_image[name], per_image[OPENCV]) for name in per_image},
    )


def _ratio(turns: Turns, other: Turns) -> float:
    return median(one / another for one, another in zip(turns.runs, other.runs, strict=True))


def show(found: dict[str, Found], console: Console) -> None:
    """Print a table of each kind."""
    for kind, one in found.items():
        table = result_table(
            f"{kind}: {one.num_images} images of {one.megapixels:.2f} megapixels and {one.kilobytes:.0f} kB on average",
            f"time: that of '{OPENCV}' is 1 (median of the ratios within each round)",
            "way",
            *("ms/image", "min-max", "time"),
        )
        for name, turns in one.turns.items():
            table.add_row(
                name,
                f"{turns.median * 1e3:.2f}",
                f"{min(turns.runs) * 1e3:.2f}-{max(turns.runs) * 1e3:.2f}",
                f"{one.ratios[name]:.2f}",
            )
        console.print(table)


def _rows(found: dict[str, Found]) -> list[dict[str, object]]:
    return [
        {
            "name": f"{kind}: {name}",
            "images": one.num_images,
            "megapixels": round(one.megapixels, 4),
            "kilobytes": round(one.kilobytes, 2),
            "milliseconds": turns.to_dict(),
            "times_opencv": round(one.ratios[name], 4),
        }
        for kind, one in found.items()
        for name, turns in one.turns.items()
    ]
