"""Make one shard of a plan, on any machine; repeating this does no harm."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, BinaryIO

from readers.formats.parquet.dataset import ParquetDataset
from readers.formats.tar.dataset import SCAN
from readers.jpeg_seek_points.locations import write_beside
from readers.jpeg_seek_points.sample_file import SampleFile
from readers.prepare.contents import Contents, DigestFile, Shard, fill
from readers.prepare.errors import PrepareError, TransientError
from readers.prepare.packer import Packed, Packer, Refused
from readers.prepare.parquet_shards import ColumnError, ParquetShard, extra_fields
from readers.prepare.shards.plan import Plan
from readers.prepare.shards.planning import PLAN, order_of, require_versions
from readers.prepare.tar_shards import TarShard
from readers.prepare.workers import Threads
from readers.sample import BadSample
from readers.storage.destination import create_indexed
from readers.storage.index.index_file import Head
from readers.storage.paths import shown_path

# Limits of the bytes and samples that a thread fetches together: small, because all unfinished tasks are in memory.
_TASK_BYTES = 500_000
_TASK_SAMPLES = 512

EMPTY_SHARD = Contents().noted(0) | {"sha256": ""}
"""The counts of a shard without a sample that can be packed; such a shard has an entry, but no file."""


def make_shard(plan: Plan, number: int) -> dict[str, Any]:
    """Make a shard of a plan, unless it is done, and return its entry.

    The complete shard appears under its name, then its index and seek points next to it, then its entry in the folder
    ``.gpuaug-plan``, which marks it as done. A task that was killed can be run again, and a task that runs twice, or on two
    machines at once, does no harm: both write equal bytes. Samples that cannot be packed are left out and listed in the
    entry. If no sample can be packed, only an entry is written.

    Args:
        plan: A plan from `plan_shards`; it opens the data once in each process.
        number: Number of the shard, 0 <= number < len(plan).

    Returns:
        The entry, a dict with name, begin and end (positions in the order), samples, bytes, source_bytes, sha256 of the
        shard's bytes, and bad_samples (their number).

    Raises:
        TransientError: The storage failed to give a sample, or the destination cannot be written. No entry was written, so
            another attempt makes the shard.
        PrepareError: The data cannot be opened on this machine or has changed, the destination has another plan, or the
            plan was made with other versions of this package or of pyarrow.
        IndexError: `number` is out of range.

    Example:
        >>> from readers.prepare import make_shard, plan_shards
        >>> plan = plan_shards("photos/", "made/")
        >>> entry = make_shard(plan, 0)
        >>> entry["name"], entry["samples"], make_shard(plan, 0) == entry
        ('shard-000000.tar', 36, True)
    """
    return ShardMaker(plan).make(number)


class ShardMaker:
    """Makes shards of a plan, one at a time, with several workers for the samples of a shard.

    Args:
        plan: The plan.
        workers: Threads or processes that prepare samples; None prepares one sample after another.
        packer: The function that prepares samples; None makes it from the plan.
    """

    def __init__(
        self, plan: Plan, workers: Threads | None = None, packer: Packer | None = None
    ) -> None:
        self._plan, self._workers, self._packer = plan, workers, packer

    def make(self, number: int) -> dict[str, Any]:
        """Make shard `number` unless it is done, and return its entry; see `make_shard`."""
        plan = self._plan
        if not 0 <= number < len(plan):
            raise IndexError(f"a shard is one of {len(plan)}, got {number}")
        if (entry := finished_entry(plan, number)) is not None:
            return noted(entry)
        if self._packer is None:
            self._packer = packer_of(plan)
        if plan.destination.read(PLAN) != plan.document():
            raise PrepareError(
                f"{shown_path(plan.destination.location)} has another plan of shards, or no plan any more: give a new folder"
            )
        try:
            content, bad = self._write(number, self._packer)
        except OSError as error:
            raise unwritten_shard_error(plan, number, error) from None
        return noted(note_shard(plan, number, plan.stretch(number), content, bad))

    def _write(self, number: int, packer: Packer) -> tuple[dict[str, Any], list[BadSample]]:
        stretch, bad = self._plan.stretch(number), list[BadSample]()
        samples = self._samples(stretch, packer, bad)
        first = next(samples, None)
        if first is None:
            return EMPTY_SHARD, bad
        try:
            all_samples = chain([first], samples)
            return write_shard(self._plan, number, partial(_add_all, all_samples)), bad
        except ColumnError:
            bad.clear()
        # A later sample has a field that the first row group lacks: collect the fields of all samples, then begin anew.
        plain = Packer(packer.dataset, packer.order, headers=False, copied=False)
        samples = self._samples(stretch, plain, [], here=True)
        fields = tuple(dict.fromkeys(field for one in samples for field in extra_fields(one)))
        samples = self._samples(stretch, packer, bad)
        return write_shard(self._plan, number, partial(_add_all, samples), fields), bad

    def _samples(
        self, stretch: range, packer: Packer, bad: list[BadSample], *, here: bool = False
    ) -> Iterator[Packed]:
        """Yield the samples of a range of positions, prepared for writing; append those that cannot be packed to `bad`.

        Args:
            stretch: Positions in the order.
            packer: Prepares the samples.
            bad: List to append to.
            here: Whether to prepare the samples in this thread instead of in the workers.
        """
        step = min(_TASK_SAMPLES, max(1, _TASK_BYTES // max(1, self._plan.sizes["sample_bytes"])))
        tasks = (
            range(start, min(start + step, stretch.stop))
            for start in range(stretch.start, stretch.stop, step)
        )
        done: Iterator[list[Packed | Refused]]
        done = (
            map(packer, tasks)
            if here or self._workers is None
            else self._workers.map(packer, tasks)
        )
        for some in done:
            for one in some:
                if isinstance(one, Packed):
                    yield one
                else:
                    bad.append(one.bad)


def _add_all(samples: Iterable[Packed], shard: Shard) -> None:
    for sample in samples:
        shard.add(sample)


def write_shard(
    plan: Plan,
    number: int,
    add_samples: Callable[[Shard], None],
    fields: tuple[str, ...] | None = None,
) -> dict[str, Any]:
    """Write a shard, then its index and seek points next to it, and return its counts.

    Args:
        plan: The plan; its boundaries are not used.
        number: Number of the shard.
        add_samples: Adds at least one sample to the shard that it is called with.
        fields: The columns of a Parquet shard besides key, image and label; None takes the fields of the first row group.

    Returns:
        Counts of the shard for the manifest, and the SHA-256 of its bytes.

    Raises:
        ColumnError: The shard has no column for a field of a sample.
        OSError: The file of seek points cannot be written.
        TransientError: The shard or its index cannot be written.
    """
    place, name = plan.destination, plan.name(number)
    heads: list[Head] = []
    in_tar = plan.format == "tar"
    created = create_indexed(place, name, SCAN, heads.append) if in_tar else place.create(name)
    with created as file:
        digest = DigestFile(file)
        shard = shard_in(digest, plan.format, plan.class_names, fields)
        counts, seek_points = fill(shard, add_samples)
    if plan.finder is not None:
        if in_tar:
            shard_file = SampleFile(place.at(name), heads[0].digest[:32], counts["samples"])
        else:
            [shard_file] = ParquetDataset(place.at(name)).sample_files
        write_beside(shard_file, plan.finder.version, seek_points)
    return counts | {"sha256": digest.hexdigest()}


def shard_in(
    file: BinaryIO,
    format: str,
    class_names: Sequence[str],
    fields: tuple[str, ...] | None = None,
) -> Shard:
    """Return a new shard that writes to an empty file.

    Args:
        file: The file.
        format: "tar" or "parquet".
        class_names: Name of each class number; may be empty.
        fields: The columns of a Parquet shard besides key, image and label; None takes the fields of the first row group.
    """
    return TarShard(file) if format == "tar" else ParquetShard(file, class_names, fields)


def unwritten_shard_error(plan: Plan, number: int, error: OSError) -> TransientError:
    """Return the error for a shard that could not be made because of an OSError."""
    location = plan.destination.at(plan.name(number))
    return TransientError(
        f"{shown_path(location)} cannot be made ({error.strerror or error}): finished shards stay valid, so repair the cause "
        "and run the same command again"
    )


def note_shard(
    plan: Plan, number: int, span: range, content: dict[str, Any], bad: list[BadSample]
) -> dict[str, Any]:
    """Write the entry of a shard, which marks it as done, and return it.

    Args:
        plan: The plan.
        number: Number of the shard.
        span: Positions in the order that the shard covers.
        content: The result of `write_shard`, or EMPTY_SHARD.
        bad: Samples that were left out because they cannot be packed.
    """
    place = {"name": plan.name(number), "begin": span.start, "end": span.stop}
    listed = [{"key": one.key, "stage": one.stage, "reason": one.reason} for one in bad]
    entry = {"plan": plan.identity} | place | content | {"bad_samples": listed}
    with plan.destination.create(plan.entry_name(number)) as file:
        file.write(json.dumps(entry).encode())
    return entry


def packer_of(plan: Plan, *, copied: bool = False) -> Packer:
    """Return the function that prepares the samples of a plan for writing.

    Args:
        plan: The plan.
        copied: Whether fields are copied to bytes, because they are sent to another process.

    Raises:
        PrepareError: The data cannot be opened on this machine, the plan was read from its destination and cannot open the
            data, or the plan was made with other library versions.
    """
    require_versions(plan)
    if plan.source is None:
        raise PrepareError(
            "this plan was read from its destination and cannot open the data: make the plan from the data again"
        )
    dataset = plan.source.open()
    order = order_of(plan.settings, len(dataset))
    in_tar = plan.format == "tar"
    return Packer(dataset, order, in_tar, copied=copied, finder=plan.finder)


def finished_entry(plan: Plan, number: int) -> dict[str, Any] | None:
    """Return the entry of a shard if the shard is done; else None.

    A shard is done if its entry exists and its file has the size that the entry gives.

    Raises:
        PrepareError: The entry belongs to another plan.
    """
    stored = plan.destination.read(plan.entry_name(number))
    if stored is None:
        return None
    try:
        entry: dict[str, Any] = json.loads(stored)
        identity, size_bytes = entry["plan"], entry["bytes"]
    except (ValueError, KeyError, TypeError):
        return None  # damaged: the shard is made again
    if identity != plan.identity:
        raise PrepareError(
            f"{shown_path(plan.destination.location)} holds shards of another plan, such as {entry['name']}: give a new "
            "folder"
        )
    if size_bytes and plan.destination.size_bytes(entry["name"]) != size_bytes:
        return None
    return entry


def noted(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry with the number of its bad samples instead of their list."""
    return entry | {"bad_samples": len(entry["bad_samples"])}
