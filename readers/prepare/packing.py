"""Pack any dataset into WebDataset tar shards, with an index file next to each, or into Parquet shards."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal

from readers.formats.stream import TarStream
from readers.jpeg_seek_points.finder import Finder
from readers.prepare.errors import PrepareError
from readers.prepare.job import ArrayTask, Executor, Job, LocalExecutor
from readers.prepare.shards.making import ShardMaker, make_shard, packer_of
from readers.prepare.shards.merging import Packing, ShardParts, Totals, finished_packing
from readers.prepare.shards.merging import merge as merge_shards
from readers.prepare.shards.packable import (
    check_apart,
    check_folder,
    check_source,
    stream_plan_error,
)
from readers.prepare.shards.plan import Plan
from readers.prepare.shards.planning import check_settings, load_plan, planned, settings_of
from readers.prepare.source import open_source, planned_source
from readers.prepare.stream_packing import pack_stream
from readers.prepare.workers import Processes, Threads, checked_workers
from readers.sample import PathLike
from readers.storage.destination import Destination, open_destination
from readers.storage.paths import is_url, shown_path
from readers.storage.remote import StorageOptions

# Fewer samples are packed faster by threads, because starting processes takes 2 s.
_NUM_SAMPLES_FOR_PROCESSES = 50_000
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)

__all__ = ["Packing", "pack", "size_from"]


def size_from(given: str | int) -> int:
    """Return a size in bytes, given as text, such as "256MB" (1 MB = 10**6) or "1GiB" (2**30), or as a number of bytes.

    Raises:
        PrepareError: `given` is not a size.
    """
    # True is an int, and a float such as 2.5e8 may have no exact number of bytes: neither is a size.
    is_text = isinstance(given, str) or type(given) is int
    found = _SIZE.fullmatch(str(given).strip()) if is_text else None
    size = 0
    if found:
        exponent = " kmgt".index(found[2].lower() or " ")
        size = round(float(found[1]) * (1024 if found[3] else 1000) ** exponent)
    if size < 1:
        raise PrepareError(
            f"a size must be a number with a unit, such as '256MB' or '1GiB', or a whole number of bytes, such as 256_000_000, "
            f"got {given!r}"
        )
    return size


def pack(
    source: str,
    destination: PathLike,
    *,
    format: Literal["tar", "parquet"] = "tar",
    shard_size: str | int = "256MB",
    shuffle: int | None = None,
    finder: Finder | None = None,
    allow_pipe: bool = False,
    source_format: str | None = None,
    num_workers: int | None = None,
    executor: Executor | None = None,
    merge: bool = False,
    storage: StorageOptions | None = None,
    on_progress: Callable[[int, int | None], None] = lambda *_: None,
    **options: Any,
) -> Packing:
    """Pack a dataset into shards at a destination, and return the result; shards that are done already are kept.

    The bytes of the shards depend only on the source and the settings, not on the executor, nor on whether the work was
    interrupted and repeated. A source that can only be read from front to back is packed shard after shard, on this machine.

    Args:
        source: A source as for `readers.open_dataset`.
        destination: The folder of the shards, or a URL such as ``s3://bucket/train``; it may hold some of the shards.
        format: Format of the shards, "tar" (WebDataset) or "parquet".
        shard_size: The largest size of a shard, such as "256MB" or "1GiB", or a number of bytes. It may be exceeded a
            little if the source does not give the sizes of all samples: see `plan_shards`.
        shuffle: Seed of the order of the samples; None keeps the order of the source.
        finder: Finds the seek points of each JPEG, which are written next to the shards: see
            `readers.prepare.seek_points`; it must be picklable. None writes no seek points. Shards that are done already
            get none.
        allow_pipe: Whether the source may be ``pipe:COMMAND``, which runs the command.
        source_format: Name of the source's format, such as "stream"; None if it is detected.
        num_workers: Number of threads, or of processes for large datasets; all cores if None.
        executor: Makes the shards, for example on a cluster; this machine if None. The result of an `ArrayTask` has only
            the sums over its own shards; its lists need the manifest, which `merge` writes after all tasks have ended.
        merge: Make no shard; check that all tasks of an array job have made their shards, and write the manifest.
        storage: Options of the connection to a destination in an object store.
        on_progress: Called with the number of samples that are done, and the number of all samples (None if unknown).
        options: ``split`` and options of the source's format, as for `readers.open_dataset`.

    Raises:
        PrepareError: The destination cannot be written, has the name of a file, holds other files or shards of other
            data or settings, or is within the source; no sample can be packed; or shards are missing.
        ReadersError: The source cannot be opened or read.

    Example:
        >>> from readers.prepare import pack
        >>> packed = pack("photos/", "packed_photos/", shard_size="64MB", shuffle=0)
        >>> packed.num_samples, [shard["name"] for shard in packed.shards]
        (36, ['shard-000000.tar'])
    """
    bytes_per_shard = size_from(shard_size)
    check_settings(format, bytes_per_shard, shuffle)
    workers, place = checked_workers(num_workers), open_destination(destination, storage)
    check_folder(place, format)
    check_apart(source, place)
    dataset = open_source(source, format=source_format, allow_pipe=allow_pipe, **options)
    check_source(source, dataset, shuffle)
    if isinstance(dataset, TarStream):
        _check_stream(source, place, apart=merge or executor is not None)
        return pack_stream(
            source,
            dataset,
            place,
            format=format,
            bytes_per_shard=bytes_per_shard,
            finder=finder,
            num_workers=workers,
            on_progress=on_progress,
        )
    settings = settings_of(dataset.fingerprint, len(dataset), format, bytes_per_shard, shuffle)
    if (finished := finished_packing(place, settings)) is not None:
        return finished
    if merge:
        load_plan(destination, storage)  # raises if no pack was begun
    elif executor is not None:
        _check_executor(executor)
    opener = planned_source(source, dataset, source_format, options)
    plan = planned(dataset, place, settings, opener, finder)
    if not merge:
        made = _make_missing(plan, executor, workers, on_progress)
        if isinstance(executor, ArrayTask):
            return Packing(place, made)
    return merge_shards(plan)


def _check_executor(executor: Executor) -> None:
    """Run a job without tasks, so that an executor that cannot work raises its error before a plan is stored."""
    for _ in executor.run(Job(int, (), ShardParts.task_bytes, ShardParts.what)):
        pass


def _make_missing(
    plan: Plan,
    executor: Executor | None,
    num_workers: int,
    on_progress: Callable[[int, int | None], None],
) -> Totals:
    """Make the shards of a plan that are not done yet, and return sums over these shards."""
    parts, made = ShardParts(plan), Totals()
    missing = parts.missing(range(len(plan)))
    with _maker(plan, missing, executor, num_workers) as (do, chosen):
        for _, entry in parts.make(do, chosen, missing, plan.num_samples, on_progress):
            made.add_made(entry)
    return made


@contextmanager
def _maker(
    plan: Plan, missing: list[int], executor: Executor | None, num_workers: int
) -> Iterator[tuple[Callable[[int], dict[str, Any]], Executor]]:
    """Yield a function that makes a shard, given its number, and the executor to run it with.

    Without an `executor` of the user, there are two ways on this machine: if many shards are missing, each process makes a
    shard of its own; else all cores pack the samples of one shard after another.
    """
    make = partial(make_shard, plan)
    many = num_workers > 1 and plan.num_samples >= _NUM_SAMPLES_FOR_PROCESSES
    if executor is not None:
        yield make, executor
    elif not missing or (many and len(missing) >= num_workers):
        yield make, LocalExecutor(num_workers)
    else:
        packer = packer_of(plan, copied=many)
        with Processes(num_workers, packer) if many else Threads(num_workers) as workers:
            yield ShardMaker(plan, workers, packer).make, LocalExecutor(num_workers, spread=False)


def _check_stream(source: str, place: Destination, *, apart: bool) -> None:
    if apart:
        raise stream_plan_error(source)
    if is_url(place.location):
        raise PrepareError(
            f"{source} can only be read forward, and its shards can only be written into a folder, got "
            f"{shown_path(place.location)}: pack it into a folder, then copy the folder"
        )
