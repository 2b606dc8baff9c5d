"""Shuffled reads of the same samples from every format: our readers beside the formats' own libraries."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import bench
from bench.baselines.peers.catalog import environment, python_of
from bench.baselines.peers.far import FarProcess, PeerError
from bench.baselines.peers.install import why_not
from bench.cli.arguments import check_writable
from bench.compare.timer import rotated
from bench.output.errors import BenchError
from bench.output.results import save_result
from bench.output.text import wide_console
from bench.reading.copies import Image, files
from bench.reading.result import ENTRIES, Entry, Result, Turn, rows_of, show
from bench.reading.ways import Task, text_of
from readers import Order, Sample, open_dataset
from readers.cores import usable_cores
from readers.label_vector import class_number

_PREPARE_SECONDS_MAX = 900.0
_ANSWER_SECONDS_MORE = 120.0
_AHEAD = 3  # batches per thread that may lie ready when a turn begins
_PART = 64  # samples that are fetched at a time from the source


_ENVIRONMENT = {
    "PYTHONPATH": str(Path(bench.__file__).parent.parent),
    "PYTHONWARNINGS": "ignore",
}
_WRITERS = {"mds": "mosaic-streaming", "litdata": "litdata"}  # whose environment writes a copy


@dataclass(frozen=True)
class ReadSettings:
    """How to measure.

    Attributes:
        seconds: Measured time per reader, warm, over all rounds.
        rounds: Turns of every reader.
        cold_rounds: Turns after the files were dropped from the page cache, each in a new process.
        batch_size: Samples per batch.
        num_threads: Threads or worker processes; None takes the cores.
        size_bytes: Samples are taken from the data up to this size, over and over where it has less.
        only: Copies that take part; all when empty.
    """

    seconds: float = 10.0
    rounds: int = 5
    cold_rounds: int = 3
    batch_size: int = 256
    num_threads: int | None = None
    size_bytes: int = 1 << 29
    only: tuple[str, ...] = ()


def read_and_show(source: str, settings: ReadSettings, *, json_path: Path | None) -> Result:
    """Measure, print the table and write it down.

    Raises:
        BenchError: The data has fewer samples than a batch, or a number is not positive.
    """
    check_writable(json_path)
    if not (settings.seconds > 0 and settings.rounds > 0 and settings.batch_size > 0):
        raise BenchError(
            f"seconds, rounds and batch size must be greater than 0, got {settings.seconds}, "
            f"{settings.rounds} and {settings.batch_size}: leave them out"
        )
    console = wide_console()
    with (
        tempfile.TemporaryDirectory(prefix="gpu-aug-read-", ignore_cleanup_errors=True) as folder,
        console.status("reading the data") as status,
    ):
        result = _measure(source, settings, Path(folder), status.update)
    show(result, console)
    plain = {**vars(settings), "only": list(settings.only), "data": source}
    save_result(json_path, console, "bench read", plain, [rows_of(result)])
    return result


def _measure(source: str, settings: ReadSettings, folder: Path, progress: Any) -> Result:
    images = _images(source, settings.size_bytes)
    if len(images) < 2 * settings.batch_size:
        raise BenchError(
            f"{source} has {len(images)} samples, and two batches need {2 * settings.batch_size}: "
            "give more data or a smaller --batch-size"
        )
    if settings.cold_rounds and not hasattr(os, "posix_fadvise"):
        raise BenchError(
            f"this system empties no page cache, so cold_rounds must be 0, got {settings.cold_rounds}: add --cold-rounds 0"
        )
    result = Result(len(images), sum(len(image.data) for image in images))
    copies = _make_copies(images, settings, folder, result, progress)
    del images
    entries = [entry for entry in ENTRIES if entry.copy in copies]
    with contextlib.ExitStack() as stack:
        running: dict[str, Reader] = {}
        for entry in entries:
            progress(f"warming up: {entry.name}")
            try:
                reader = stack.enter_context(Reader(entry, copies[entry.copy], settings))
                reader.turn(0.5)
                running[entry.name] = reader
            except PeerError as error:
                result.absent[entry.name] = (error.trace.strip().splitlines() or [str(error)])[-1][
                    :200
                ]
        for number in range(settings.rounds):
            for name in rotated(list(running), number):
                progress(f"round {number + 1} of {settings.rounds}: {name}")
                turn = running[name].turn(settings.seconds / settings.rounds)
                result.warm.setdefault(name, []).append(turn)
    for number in range(settings.cold_rounds):
        for entry in rotated([entry for entry in entries if entry.name in running], number):
            progress(f"cold round {number + 1} of {settings.cold_rounds}: {entry.name}")
            turn = _cold_turn(entry, copies[entry.copy], settings, result.samples)
            result.cold.setdefault(entry.name, []).append(turn)
    return result


def _cold_turn(entry: Entry, copy: Path, settings: ReadSettings, samples: int) -> Turn:
    """One turn of a new process, whose first batch was read before the page cache was emptied."""
    with Reader(entry, copy, settings) as reader:
        reader.ask(0, 1, 1)
        _drop_from_cache(copy)
        most = samples - (reader.ahead + 2) * settings.batch_size
        return reader.ask(
            settings.seconds / settings.rounds, reader.ahead, max(settings.batch_size, most)
        )


class Reader:
    """One way to read, in a process of its own."""

    def __init__(self, entry: Entry, copy: Path, settings: ReadSettings) -> None:
        """Start it.

        Raises:
            PeerError: Its environment is not there.
        """
        if entry.peer and (reason := why_not(entry.peer)):
            raise PeerError(reason, reason)
        num_threads = settings.num_threads or usable_cores()
        self.ahead = _AHEAD * num_threads
        task = text_of(Task(copy, settings.batch_size, num_threads, seed=0))
        command = [_python(entry.peer), "-m", "bench.reading.worker", entry.way, task]
        self._far = FarProcess(command, _ENVIRONMENT)

    def turn(self, seconds: float) -> Turn:
        """Samples and bytes per second over so many seconds, without what lay ready."""
        return self.ask(seconds, self.ahead, sys.maxsize)

    def ask(self, seconds: float, discard: int, most: int) -> Turn:
        """Samples and bytes per second until the time is over or so many samples have come.

        Raises:
            PeerError: It ended, or did not answer.
        """
        question = {"seconds": seconds, "discard": discard, "most": most}
        answer = self._far.ask(question, seconds + _ANSWER_SECONDS_MORE)
        elapsed = max(answer["seconds"], 1e-9)
        return answer["samples"] / elapsed, answer["bytes"] / elapsed

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self._far.close()


def _images(source: str, size_bytes: int) -> list[Image]:
    """Samples spread over the data, up to a size; repeated where there are fewer, as copies of their own."""
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
    progress: Any,
) -> dict[str, Path]:
    (folder / "files").mkdir()
    copies = {"files": files(images, folder / "files")}
    for name in dict.fromkeys(entry.copy for entry in ENTRIES):
        if name == "files" or (settings.only and name not in settings.only):
            continue
        progress(f"writing {name}")
        target = folder / name
        target.mkdir()
        peer = _WRITERS.get(name, "")
        reason = (why_not(peer) if peer else "") or _copy(name, copies["files"], target, peer)
        if reason:
            result.absent[f"{name} (copy)"] = reason
            shutil.rmtree(target)
            continue
        copies[name] = next(target.glob("*.h5"), target)
    if settings.only and "files" not in settings.only:
        del copies["files"]
    os.sync()
    return copies


def _copy(name: str, source: Path, target: Path, peer: str) -> str:
    """Write a copy in a process, where its library is; return why it did not work, or ""."""
    command = [_python(peer), "-m", "bench.reading.copies", name, str(source), str(target)]
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


def _python(peer: str) -> str:
    return str(python_of(environment(peer))) if peer else sys.executable


def _drop_from_cache(copy: Path) -> None:
    for path in [copy] if copy.is_file() else copy.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
