"""Compare our readers with the formats' own libraries in shuffled reads of equal samples from every format.

Every reader is a separate process, so that none shares memory, threads or the GIL with another.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

import bench
from bench.baselines.peers.catalog import environment, python_of, why_not
from bench.baselines.peers.far import FarProcess
from bench.output.arguments import check_writable
from bench.output.errors import BenchError, require_above_zero
from bench.output.results import save_result
from bench.output.text import wide_console
from bench.reading.copies import Image, files
from bench.reading.result import ENTRIES, Entry, Result, show
from bench.timing import Turn, measure_in_turns
from readers import Order, Sample, open_dataset
from readers.cores import usable_cores
from readers.labels.label_vector import class_number

Progress = Callable[[str], object]

_PREPARE_SECONDS_MAX = 900.0  # enough for half a gigabyte on a slow network disk
_ANSWER_SECONDS_MORE = 120.0  # for the work of a library before its first batch
_WARM_UP_SECONDS = 0.5
_AHEAD = 3  # batches per thread that may be ready when a turn starts
_PART = 64  # samples fetched at a time from the source
_TABLE_WIDTH = 120
_ENVIRONMENT = {
    "PYTHONPATH": str(Path(bench.__file__).parent.parent),
    "PYTHONWARNINGS": "ignore",
}
# For each format, the peer (loader of another project) whose environment writes the copy.
_WRITERS = {"mds": "mosaic-streaming", "litdata": "litdata"}


@dataclass(frozen=True)
class ReadSettings:
    """Settings of the measurement.

    Attributes:
        seconds: Measured time per reader in seconds with the files in the page cache, summed over all rounds.
        rounds: Count of rounds; in each, every reader is measured once.
        cold_rounds: Count of further rounds, in which files are first dropped from the page cache and readers are new
            processes.
        batch_size: Samples per batch.
        num_threads: Count of threads or worker processes; None uses the count of cores.
        size_bytes: Size in bytes of the samples taken from the data; samples are repeated if the data is smaller.
        only: Formats that take part; empty for all.
    """

    seconds: float = 10.0
    rounds: int = 5
    cold_rounds: int = 3
    batch_size: int = 256
    num_threads: int | None = None
    size_bytes: int = 1 << 29
    only: tuple[str, ...] = ()


def read_and_show(source: str, settings: ReadSettings, *, json_path: Path | None) -> Result:
    """Measure all readers, print the table, write it to a file and return the result.

    Raises:
        BenchError: The data has fewer samples than two batches, or a number is not positive.
    """
    check_writable(json_path)
    require_above_zero(
        seconds=settings.seconds, rounds=settings.rounds, batch_size=settings.batch_size
    )
    if settings.cold_rounds and not hasattr(os, "posix_fadvise"):
        raise BenchError(
            f"this system empties no page cache, so cold_rounds must be 0, got {settings.cold_rounds}: add --cold-rounds 0"
        )
    console = wide_console(_TABLE_WIDTH)
    with (
        tempfile.TemporaryDirectory(prefix="gpu-aug-read-", ignore_cleanup_errors=True) as folder,
        console.status("reading the data") as status,
    ):
        result = _measure(source, settings, Path(folder), status.update)
    show(result, console)
    plain = {**vars(settings), "only": list(settings.only), "data": source}
    save_result(json_path, console, "bench read", plain, [result.to_dict()])
    return result


def _measure(source: str, settings: ReadSettings, folder: Path, progress: Progress) -> Result:
    images = _images(source, settings.size_bytes)
    if len(images) < 2 * settings.batch_size:
        raise BenchError(
            f"{source} has {len(images)} samples, and two batches need {2 * settings.batch_size}: "
            "give more data or a smaller --batch-size"
        )
    result = Result(len(images), sum(len(image.data) for image in images))
    copies = _make_copies(images, settings, folder, result, progress)
    del images
    starts: dict[str, Callable[[], Reader]] = {}
    for entry in ENTRIES:
        if entry.peer and entry.copy in copies and (reason := why_not(entry.peer)):
            result.absent[entry.name] = reason
        elif entry.copy in copies:
            starts[entry.name] = partial(Reader, entry, copies[entry.copy], settings)
    seconds = settings.seconds / settings.rounds
    measure = partial(measure_in_turns, seconds=seconds, on_failure=result.leave_out)
    with ExitStack() as stack:
        readers = {name: stack.enter_context(closing(start())) for name, start in starts.items()}
        result.warm = measure(
            {name: reader.take_warm_turn for name, reader in readers.items()},
            rounds=settings.rounds,
            warm_up=_WARM_UP_SECONDS,
            progress=lambda line: progress(f"warm, {line}"),
        )
    if settings.cold_rounds:
        result.cold = measure(
            {name: partial(_take_cold_turn, starts[name], result.samples) for name in result.warm},
            rounds=settings.cold_rounds,
            progress=lambda line: progress(f"cold, {line}"),
        )
    return result


class Reader(FarProcess):
    """A process that reads a copy of the samples with one library.

    Args:
        entry: The copy's format, the way of reading, and the environment that runs it.
        copy: Path of the copy that it reads.
        settings: The settings of the measurement, with threads and batch size.
    """

    def __init__(self, entry: Entry, copy: Path, settings: ReadSettings) -> None:
        num_threads = settings.num_threads or usable_cores()
        self._copy, self._batch_size = copy, settings.batch_size
        self._num_ahead = _AHEAD * num_threads
        numbers = [str(settings.batch_size), str(num_threads)]
        super().__init__(
            [*_module(entry.peer, "ways"), entry.way, str(copy), *numbers], _ENVIRONMENT
        )

    def take_warm_turn(self, seconds: float) -> Turn:
        """Read for some seconds and return what was read, without the batches that were ready before."""
        return self._take_turn(seconds, self._num_ahead, None)

    def take_cold_turn(self, seconds: float, num_samples: int) -> Turn:
        """Empty the page cache, then read for some seconds, each sample at most once, and return what was read."""
        self._take_turn(0.0, 0, 1)  # after this, the process has opened the copy
        _drop_from_cache(self._copy)
        rest = num_samples - (self._num_ahead + 2) * self._batch_size
        return self._take_turn(seconds, self._num_ahead, max(self._batch_size, rest))

    def _take_turn(self, seconds: float, discard: int, items_max: int | None) -> Turn:
        question = {"seconds": seconds, "discard": discard, "items_max": items_max}
        return Turn(**self.ask(question, seconds + _ANSWER_SECONDS_MORE))


def _take_cold_turn(start: Callable[[], Reader], num_samples: int, seconds: float) -> Turn:
    """Measure a new process with an empty page cache: pages that an older process has mapped would stay in it."""
    with closing(start()) as reader:
        return reader.take_cold_turn(seconds, num_samples)


def _images(source: str, size_bytes: int) -> list[Image]:
    """Return samples spread over the data, up to a size; if there are too few, they are repeated as separate samples."""
    dataset = open_dataset(source)
    order = Order(len(dataset))
    images: list[Image] = []
    num_bytes = 0
    for start in range(0, len(dataset), _PART):
        positions = np.arange(start, min(start + _PART, len(dataset)))
        for entry in dataset.fetch(order.indices(0, positions)):
            if not isinstance(entry, Sample) or entry.image is None:
                continue
            if num_bytes + len(entry.image) <= size_bytes:
                images.append(Image(bytes(entry.image), max(class_number(entry.label), 0)))
                num_bytes += len(entry.image)
    return images * max(1, size_bytes // max(num_bytes, 1))


def _make_copies(
    images: Sequence[Image],
    settings: ReadSettings,
    folder: Path,
    result: Result,
    progress: Progress,
) -> dict[str, Path]:
    """Write a copy in each format that takes part; record in the result why a copy could not be written."""
    source = folder / "files"
    source.mkdir()
    files(images, source)
    copies = {}
    for name in dict.fromkeys(entry.copy for entry in ENTRIES):
        if settings.only and name not in settings.only:
            continue
        target, peer = folder / name, _WRITERS.get(name, "")
        if name != "files":
            progress(f"writing {name}")
            target.mkdir()
            if reason := (peer and why_not(peer)) or _copy(name, source, target, peer):
                result.absent[f"{name} (copy)"] = reason
                shutil.rmtree(target)
                continue
        copies[name] = next(target.glob("*.h5"), target)
    os.sync()
    return copies


def _copy(name: str, source: Path, target: Path, peer: str) -> str:
    """Write a copy in a process of the environment that has its library; return the reason for a failure, or ""."""
    command = [*_module(peer, "copies"), name, str(source), str(target)]
    try:
        ran = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **_ENVIRONMENT},
            timeout=_PREPARE_SECONDS_MAX,
        )
    except subprocess.TimeoutExpired:
        return f"writing it took more than {_PREPARE_SECONDS_MAX:.0f} s"
    return (ran.stderr.strip().splitlines() or ["it failed"])[-1][:200] if ran.returncode else ""


def _module(peer: str, module: str) -> list[str]:
    """Return the command that runs a module of this package in the environment of a peer."""
    python = str(python_of(environment(peer))) if peer else sys.executable
    return [python, "-m", f"bench.reading.{module}"]


def _drop_from_cache(copy: Path) -> None:
    for path in [copy] if copy.is_file() else copy.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
