"""Pack a source that can only be read from front to back; its shards are written one after another on this machine."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

from readers.fingerprint import fingerprint_of
from readers.formats.stream import TarStream
from readers.jpeg_seek_points.finder import Finder
from readers.prepare.contents import Shard, fill
from readers.prepare.packer import Packed, Packer, Refused
from readers.prepare.shards.making import (
    EMPTY_SHARD,
    finished_entry,
    note_shard,
    shard_in,
    unwritten_shard_error,
    write_shard,
)
from readers.prepare.shards.merging import Packing, finished_packing, merge_parts
from readers.prepare.shards.plan import Plan
from readers.prepare.shards.planning import keep_plan, settings_of, versions
from readers.prepare.workers import Threads
from readers.sample import BadSample, Sample
from readers.storage.atomic_file import atomic_file
from readers.storage.destination import Destination
from readers.storage.lock import lock_folder

# Samples per task of a thread: few, because their sizes are unknown and all samples of unfinished tasks are in memory.
_TASK_SAMPLES = 8


class Stream:
    """An iterator over prepared samples whose next sample can be inspected before it is taken.

    Args:
        samples: All samples from `position` on.
        position: Position of the first of these samples in the order of the source.
    """

    def __init__(self, samples: Iterator[Packed | Refused], position: int) -> None:
        self._samples = samples
        self._next = next(samples, None)
        self.position = position
        self._bad: list[BadSample] = []

    def peek(self) -> Packed | None:
        """Return the next sample that can be packed, without taking it; None at the end.

        Samples before it that cannot be packed are skipped, and stored for `take_bad`.
        """
        while isinstance(self._next, Refused):
            self._bad.append(self._next.bad)
            self.skip()
        return self._next

    def take_bad(self) -> list[BadSample]:
        """Return the samples that could not be packed, as far as they were skipped since the last call."""
        bad, self._bad = self._bad, []
        return bad

    def skip(self) -> None:
        """Skip the next sample."""
        self._next = next(self._samples, None)
        self.position += 1

    def fill(self, shard: Shard, most_bytes: int) -> None:
        """Move samples into a shard while they fit; at least one sample must be left."""
        while (sample := self.peek()) is not None and shard.fits(sample, most_bytes):
            shard.add(sample)
            self.skip()


def write_stream_shard(
    path: Path,
    stream: Stream,
    *,
    format: Literal["tar", "parquet"],
    most_bytes: int,
    class_names: Sequence[str] = (),
) -> dict[str, Any]:
    """Write samples of a stream into one shard, without an index; the file appears when it is complete.

    A Parquet shard also ends before a sample with a field that the first row group lacks.

    Args:
        path: Path of the shard.
        stream: The samples, at least one.
        format: Format of the shard.
        most_bytes: Largest size of the shard, unless a single sample is larger.
        class_names: Name of each class number; may be empty.

    Returns:
        The entry of the shard for the manifest.

    Raises:
        SourceError: pyarrow is not installed.
    """
    begin = stream.position
    with atomic_file(path, to_disk=True) as file:
        shard = shard_in(file, format, class_names)
        noted, _ = fill(shard, lambda shard: stream.fill(shard, most_bytes))
    return {"name": path.name, "begin": begin, "end": stream.position} | noted


def pack_stream(
    source: str,
    stream: TarStream,
    destination: Destination,
    *,
    format: str,
    bytes_per_shard: int,
    finder: Finder | None,
    num_workers: int,
    on_progress: Callable[[int, int | None], None],
) -> Packing:
    """Pack the samples of a stream into shards, and return the result; see `readers.prepare.pack` for the arguments.

    The plan of a stream has no boundaries: each shard ends where the next sample does not fit. A second run continues after
    the last finished shard, whose entry gives the position.
    """
    settings = settings_of(_stream_id(source, stream), None, format, bytes_per_shard, None)
    packing = finished_packing(destination, settings)
    if packing is None:
        no_boundaries = np.zeros(1, np.int64)
        plan = Plan(destination, settings, versions(format), (), no_boundaries, {}, finder=finder)
        with lock_folder(Path(destination.location)):
            keep_plan(plan)
            packing = merge_parts(plan, _write_shards(stream, plan, num_workers, on_progress))
    return replace(packing, is_stream=True)


def _stream_id(source: str, stream: TarStream) -> str:
    """Return 32 hex digits that identify a stream without reading it; the path of a local source is part of them."""
    is_elsewhere = source.startswith("pipe:") or "://" in source
    path = "" if is_elsewhere else str(Path(source).absolute())
    return fingerprint_of(f"{stream.fingerprint} {path!r}")


def _write_shards(
    source: TarStream,
    plan: Plan,
    num_workers: int,
    on_progress: Callable[[int, int | None], None],
) -> int:
    """Write the shards that are not done, and return the number of all shards."""
    number = position = 0
    while (entry := finished_entry(plan, number)) is not None:
        number, position = number + 1, entry["end"]
    on_progress(position, None)
    packer = Packer(None, None, plan.format == "tar", copied=False, finder=plan.finder)
    most_bytes = plan.settings["shard_size_bytes"]
    with Threads(num_workers) as threads:
        done = threads.map(packer, _pieces(source.iterate(start=position)))
        samples: Iterator[Packed | Refused] = (one for some in done for one in some)
        stream = Stream(samples, position)
        while stream.peek() is not None:
            try:
                noted = write_shard(plan, number, lambda shard: stream.fill(shard, most_bytes))
            except OSError as error:
                raise unwritten_shard_error(plan, number, error) from None
            span = range(position, stream.position)
            note_shard(plan, number, span, noted, stream.take_bad())
            number, position = number + 1, stream.position
            on_progress(position, None)
    if bad := stream.take_bad():  # behind the last shard
        note_shard(plan, number, range(position, stream.position), EMPTY_SHARD, bad)
        number += 1
    return number


def _pieces(samples: Iterator[Sample | BadSample]) -> Iterator[list[Sample | BadSample]]:
    while piece := list(islice(samples, _TASK_SAMPLES)):
        yield piece
