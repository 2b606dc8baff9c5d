"""Any dataset as WebDataset tar or Parquet shards, the former with their indexes beside them."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

from readers.formats.stream import TarStream
from readers.jpeg_seek_points.finder import Finder
from readers.prepare.errors import PrepareError
from readers.prepare.executor import ArrayTask, Executor, Job, LocalExecutor
from readers.prepare.packed import MANIFEST, Packing, Totals, packing_of
from readers.prepare.shards.making import ShardMaker, make_shard, packer_of
from readers.prepare.shards.merging import merge as merge_shards
from readers.prepare.shards.merging import missing_shards
from readers.prepare.shards.packable import check_apart, check_folder, check_source
from readers.prepare.shards.plan import Plan
from readers.prepare.shards.planning import (
    PLAN,
    begun_otherwise,
    check_settings,
    described,
    load_plan,
    planned,
)
from readers.prepare.shards.source import PlannedSource, located
from readers.prepare.source import open_source
from readers.prepare.stream_packing import pack_stream
from readers.prepare.workers import Processes, Threads, checked_workers
from readers.sample import PathLike
from readers.storage.destination import Destination, open_destination
from readers.storage.paths import is_url, shown_path
from readers.storage.remote import StorageOptions

# From here on starting processes, 2 s, is worth it.
_NUM_SAMPLES_FOR_PROCESSES = 50_000
_TASK_BYTES = 400_000_000
"""Memory of a process that makes a shard: Python with its libraries, the samples under way, a row group."""
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)

__all__ = ["Packing", "pack", "size_from"]


def size_from(given: str | int) -> int:
    """Bytes in a size such as 256MB (10^6 each) or 1GiB (2^30); a whole number is one of bytes.

    Raises:
        PrepareError: It is not a size.
    """
    # True is an int, and 2.5e8 has no exact number of bytes in general: both are no sizes.
    is_text = isinstance(given, str) or type(given) is int
    found = _SIZE.fullmatch(str(given).strip()) if is_text else None
    size = 0
    if found:
        exponent = " kmgt".index(found[2].lower() or " ")
        size = round(float(found[1]) * (1024 if found[3] else 1000) ** exponent)
    if size < 1:
        raise PrepareError(
            f"a size must be a number with kB, MB, GB or MiB behind it, such as '256MB', or a whole number of bytes, such as "
            f"256_000_000, got {given!r}"
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
    """Write the shards of a dataset that are not there yet: plan them, make them, merge them.

    The same source and settings give the same bytes, whoever makes the shards and however often the work is broken off
    and begun again. A source that can only be read forward is packed shard after shard, on this machine.

    Args:
        source: A source as for `readers.open_dataset`.
        destination: The folder of the shards, or a URL such as ``s3://bucket/train``; it may hold a part of them.
        format: "tar" (WebDataset) or "parquet".
        shard_size: The largest size of a shard, such as "256MB" or "1GiB", or a number of bytes, as far as the sizes in the source tell: see
            `plan_shards`.
        shuffle: Seed of the order; the order of the source when None.
        finder: Finds the checkpoints of each JPEG, which are written beside the shards: see
            `readers.prepare.checkpointing`; it must be picklable. None writes none. Shards that are there already get none.
        allow_pipe: Whether the source may be ``pipe:COMMAND``, which is run.
        source_format: Name of the source's format, such as "stream"; None tells it from the source.
        num_workers: Threads, or processes where there is much to do; all cores when None.
        executor: Makes the shards elsewhere; this machine when None. The result of an `ArrayTask` has the sums over what it
            made, and its lists only once all tasks have ended and one process has merged.
        merge: Make nothing; see that all tasks of an array job have made their shards, and merge these.
        storage: How a destination in an object store is reached.
        on_progress: Called with the number of samples that are done and of all, None where that is unknown.
        options: ``split`` and options of the source's format, as for `readers.open_dataset`.

    Raises:
        PrepareError: The destination cannot be written, has the name of a file, holds something else, shards of other
            data or settings, or lies within the source; not one sample can be packed; or shards are missing.
        ReadersError: There is nothing to read.

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
            Path(place.location),
            format=format,
            bytes_per_shard=bytes_per_shard,
            finder=finder,
            num_workers=workers,
            on_progress=on_progress,
        )
    settings = described(dataset, format, bytes_per_shard, shuffle)
    if (finished := _finished(place, settings)) is not None:
        return finished
    if merge:
        load_plan(destination, storage)  # else none was begun
    elif executor is not None:
        _require(executor)
    found = PlannedSource(located(source), dataset.fingerprint, source_format, options)
    found.keep(dataset)
    plan = planned(dataset, place, settings, found, finder)
    if not merge:
        made = _make_missing(plan, executor, workers, on_progress)
        if isinstance(executor, ArrayTask):
            return Packing(place, made)
    return merge_shards(plan)


def _require(executor: Executor) -> None:
    """See that an executor can work before a plan is kept: give it no tasks."""
    for _ in executor.run(Job(int, (), _TASK_BYTES, "shard")):
        pass


def _make_missing(
    plan: Plan,
    executor: Executor | None,
    num_workers: int,
    on_progress: Callable[[int, int | None], None],
) -> Totals:
    """Make the shards of a plan that are not done, and return sums over those that were made."""
    missing, made = missing_shards(plan), Totals()
    done = plan.num_samples - sum(len(plan.stretch(number)) for number in missing)
    on_progress(done, plan.num_samples)
    with _job(plan, missing, executor, num_workers) as (job, by):
        for number, entry in by.run(job):
            made.add_noted(entry)
            done += len(plan.stretch(number))
            on_progress(done, plan.num_samples)
    return made


@contextmanager
def _job(
    plan: Plan, missing: list[int], executor: Executor | None, num_workers: int
) -> Iterator[tuple[Job[dict[str, Any]], Executor]]:
    """Who makes which shards: on this machine processes with a shard each, or all of its cores one shard."""
    job = Job(partial(make_shard, plan), missing, _TASK_BYTES, "shard")
    many = num_workers > 1 and plan.num_samples >= _NUM_SAMPLES_FOR_PROCESSES
    if executor is not None:
        yield job, executor
    elif many and len(missing) >= num_workers:
        yield job, LocalExecutor(num_workers)
    elif not missing:
        yield job, LocalExecutor(1)
    else:
        packer = packer_of(plan, copied=many)
        with Processes(num_workers, packer) if many else Threads(num_workers) as workers:
            maker = ShardMaker(plan, workers, packer)
            here = Job(maker.make, missing, _TASK_BYTES, "shard")
            yield here, LocalExecutor(num_workers, spread=False)


def _check_stream(source: str, place: Destination, *, apart: bool) -> None:
    if apart:
        raise PrepareError(
            f"{source} can only be read forward, so its shards cannot be planned: pack it on one machine (gpu-aug pack "
            "without --on, --task and --merge), or decompress it"
        )
    if is_url(place.location):
        raise PrepareError(
            f"{source} can only be read forward, and shards of such a source are written into a folder, got "
            f"{shown_path(place.location)}: pack it into a folder, then copy that"
        )


def _finished(place: Destination, settings: dict[str, Any]) -> Packing | None:
    """What a finished pack with these settings has made; None where there is something to do."""
    stored = place.read(MANIFEST)
    if stored is None:
        return None
    where = shown_path(place.location)
    try:
        manifest = json.loads(stored)
        before, version, complete = manifest["settings"], manifest["version"], manifest["complete"]
    except (ValueError, KeyError, TypeError):
        raise PrepareError(
            f"{where}/{MANIFEST} is no manifest: give a new or empty folder"
        ) from None
    if {**before, "version": version} != {**settings, "version": 1}:
        raise begun_otherwise(where, {**before, "version": version}, {**settings, "version": 1})
    has_plan = place.size_bytes(PLAN) is not None
    for shard in manifest["shards"]:
        size_bytes = place.size_bytes(shard["name"])
        if size_bytes == shard["bytes"]:
            continue
        if has_plan:
            return None  # it is made again
        found = "is missing" if size_bytes is None else f"has {size_bytes} bytes"
        raise PrepareError(
            f"{where}/{shard['name']} {found}, and {MANIFEST} says {shard['bytes']} bytes: give a new folder, or put "
            "it back"
        )
    if complete:
        return packing_of(place, manifest)
    raise PrepareError(
        f"{where} was begun by an earlier version, without a plan of its shards, and cannot be gone on with: give a new "
        "folder"
    )
