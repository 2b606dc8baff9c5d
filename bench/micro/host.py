"""What the host does for each image of the GPU path: in the thread of the training loop, and in the threads beside it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Literal
from unittest.mock import patch

import numpy as np
from rich.console import Console

from bench.cli.arguments import check_writable
from bench.compare.images import Repeated
from bench.compare.photographs import make_photographs
from bench.compare.timer import rotated
from bench.micro.host_cuda import StoreOfRepeated
from bench.micro.host_loader import HostLoader, without_gpu
from bench.output.errors import BenchError
from bench.output.results import save_result
from bench.output.text import print_sentence, result_table, wide_console
from dali_pipes.jpeg.tiling.add_restarts import tile_jpeg
from gpu_aug import Recipe
from readers import BadSample, open_dataset
from readers.prepare import pack

MEANING = (
    "Microseconds of a core for each image, beyond decoding: median over rounds in turns. loop: the thread of the "
    "training loop, of that DALI: its own calls there, engine: up to the launch of its kernel. threads: beside it, but for "
    "reading. in push: all that DALI is fed with is made in the loop. cuda: our JPEG decoder; its prepare looks files up, "
    "plans, and gathers their bytes."
)
LEFT_OUT = (
    "DALI decodes and resamples nothing: its pipeline has all inputs and gives black canvases, on the CPU",
    "our decoder's memory on the GPU is nowhere, and checkpoints are known before",
    "nothing is copied to a GPU or pinned, no kernel is launched, and nothing waits for events",
    "the threads of DALI and of the driver are not counted",
)
_FORMS = ("plain folder", "tiled folder", "plain tar", "tiled tar")
_WAYS: tuple[tuple[Literal["dali", "cuda"], bool], ...] = (
    ("dali", False),
    ("dali", True),
    ("cuda", False),
)
"""Whose host part, and whether all that DALI is fed with is made in the loop."""
_READ = "read"


@dataclass(frozen=True)
class HostSettings:
    """Sizes of the measurement.

    Attributes:
        batch_sizes: Images of a batch, in turn.
        num_files: Photographs; others are left out.
        num_images: Images of a round.
        rounds: Rounds for each row.
    """

    batch_sizes: tuple[int, ...] = (256, 64)
    num_files: int = 384
    num_images: int = 3072
    rounds: int = 7


QUICK = HostSettings(batch_sizes=(4,), num_files=8, num_images=8, rounds=1)


@dataclass(frozen=True)
class HostRow:
    """What a loader spent.

    Attributes:
        data: How the photographs are stored.
        batch_size: Images of a batch.
        in_push: Whether all that DALI is fed with is made by the thread of the training loop.
        rounds: For each round, and for "loop" and "worker", the microseconds of a core for an image by part.
        decoder: Whose host part it is.
    """

    data: str
    batch_size: int
    in_push: bool
    rounds: list[dict[str, dict[str, float]]]
    decoder: str = "dali"

    def microseconds(self, *threads: str) -> float:
        """What an image took of these threads, but for reading."""
        return median(
            sum(spent for thread in threads for part, spent in one[thread].items() if part != _READ)
            for one in self.rounds
        )

    def of_parts(self, thread: str) -> dict[str, float]:
        """The same of each part of a thread's work."""
        parts = {part for one in self.rounds for part in one[thread]}
        return {
            part: round(median(one[thread].get(part, 0.0) for one in self.rounds), 2)
            for part in sorted(parts)
        }

    def to_dict(self) -> dict[str, object]:
        """For JSON."""
        return {
            "data": self.data,
            "decoder": self.decoder,
            "batch_size": self.batch_size,
            "made_by": "loop" if self.in_push else "threads",
            "loop_us": round(self.microseconds("loop"), 2),
            "threads_us": round(self.microseconds("worker"), 2),
            "all_us": round(self.microseconds("loop", "worker"), 2),
            "loop_us_by_round": [round(sum(one["loop"].values()), 2) for one in self.rounds],
            "loop_parts_us": self.of_parts("loop"),
            "threads_parts_us": self.of_parts("worker"),
        }


def host_and_show(source: str | None, settings: HostSettings, *, json_path: Path | None) -> None:
    """Measure, print and write down.

    Args:
        source: A source as for `readers.open_dataset`; None takes the photographs that scikit-image ships.
        settings: Sizes.
        json_path: Where the result goes as well.

    Raises:
        readers.ReadersError: There is nothing to read.
        BenchError: There are no JPEGs that can be tiled, or no DALI.
    """
    check_writable(json_path)
    console = wide_console()
    with console.status("measuring"), TemporaryDirectory(prefix="gpu-aug-") as folder:
        num_bytes = store(source, Path(folder), settings.num_files)
        rows = measure(Path(folder), settings)
    show(rows, console)
    told = {"data": source or "scikit-image's photographs", **vars(settings)}
    save_result(
        json_path,
        console,
        "bench host",
        {**told, "mean_file_bytes": round(num_bytes)},
        [row.to_dict() for row in rows],
        left_out=list(LEFT_OUT),
        meaning=MEANING,
    )


def store(source: str | None, folder: Path, num_files: int) -> float:
    """Store photographs in all forms, each in a folder named like its form; returns the mean bytes of a plain file.

    Raises:
        readers.ReadersError: There is nothing to read.
        BenchError: There are no JPEGs that can be tiled.
    """
    if source is None:
        source = str(folder / "made")
        make_photographs(Path(source), per_class=-(-num_files // 8))
    sizes: list[int] = []
    for data, tiled in _jpegs(source):
        for form, one in (("plain folder", data), ("tiled folder", tiled)):
            (folder / form).mkdir(exist_ok=True)
            (folder / form / f"{len(sizes):05}.jpg").write_bytes(one)
        sizes.append(len(data))
        if len(sizes) == num_files:
            break
    if not sizes:
        raise BenchError(f"{source} has no JPEG that can be tiled: give photographs")
    for kind in ("plain", "tiled"):
        pack(str(folder / f"{kind} folder"), str(folder / f"{kind} tar"), shuffle=0)
    return sum(sizes) / len(sizes)


def measure(folder: Path, settings: HostSettings) -> list[HostRow]:
    """Run the loaders of all forms in turns."""
    rows: dict[HostLoader, HostRow] = {}
    recipe = Recipe.imagenet_train()
    checkpoints = patch("readers.checkpoints.cache_file.cache_folder", lambda: folder / "cache")
    with without_gpu(), checkpoints:
        for form in _FORMS:
            dataset = open_dataset(str(folder / form))
            images = Repeated(dataset, np.arange(len(dataset)))
            for size in settings.batch_sizes:
                for decoder, in_push in _WAYS:
                    loader = HostLoader(
                        *(images, recipe),
                        batch_size=size,
                        in_push=in_push,
                        store=StoreOfRepeated(dataset) if decoder == "cuda" else None,
                    )
                    rows[loader] = HostRow(form, size, in_push, [], decoder)
        try:
            for turn in range(settings.rounds + 1):
                for loader in rotated(list(rows), turn):
                    spent = loader.run(-(-settings.num_images // rows[loader].batch_size))
                    if turn:  # before, pipelines fill
                        rows[loader].rounds.append(spent)
        finally:
            for loader in rows:
                loader.close()
    return list(rows.values())


def show(rows: list[HostRow], console: Console) -> None:
    """Print the table and what is not in it."""
    table = result_table(
        "host time of the GPU path, us per image",
        MEANING,
        "data",
        *(
            "decoder",
            "batch",
            "made in",
            "loop",
            "DALI",
            "engine",
            "threads",
            "prepare",
            "headers",
            "draws",
            "all",
        ),
    )
    for row in rows:
        loop, threads = row.of_parts("loop"), row.of_parts("worker")
        numbers = (
            row.microseconds("loop"),
            sum(spent for part, spent in loop.items() if part.startswith("DALI")),
            loop.get("engine", 0.0),
            row.microseconds("worker"),
            threads.get("prepare", 0.0),
            threads.get("headers", 0.0),
            threads.get("draws", 0.0),
            row.microseconds("loop", "worker"),
        )
        made_in = "push" if row.in_push else "threads"
        shown = (f"{number:.1f}" for number in numbers)
        table.add_row(row.data, row.decoder, str(row.batch_size), made_in, *shown)
    console.print(table)
    print_sentence(console, f"left out: {'; '.join(LEFT_OUT)}")


def _jpegs(source: str) -> Iterator[tuple[bytes, Any]]:
    """The JPEGs of a source that can be tiled, as they are and tiled; in an order of chance."""
    dataset = open_dataset(source)
    for index in np.random.default_rng(0).permutation(len(dataset)).tolist():
        [sample] = dataset.fetch([index])
        if isinstance(sample, BadSample) or sample.image is None:
            continue
        tiled, refusal = tile_jpeg(sample.image)
        if not refusal:
            yield bytes(sample.image), tiled
