"""Making one shard of a plan, whole, wherever and however often."""

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, BinaryIO

from readers.formats.parquet.dataset import ParquetDataset
from readers.formats.tar.dataset import SCAN
from readers.jpeg_seek_points.layout import Entry
from readers.jpeg_seek_points.locations import write_beside
from readers.jpeg_seek_points.sample_file import SampleFile
from readers.prepare.contents import Contents, DigestFile
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

_TASK_BYTES = 500_000  # fetched at a time: little, since whatever is under way is held in memory
_TASK_SAMPLES = 512


def make_shard(plan: Plan, number: int) -> dict[str, Any]:
    """Make a shard of a plan, or see that it is there.

    The shard appears whole under its name, then its index and checkpoints beside it, then its entry in the folder ``.gpuaug-plan``,
    which says that it is done. So a task that was killed is run again, and one that runs twice, or on two machines at
    once, does no harm: both write the same bytes. Samples that cannot be packed are left out and listed in the entry.
    Of a shard none of whose samples can be packed there is an entry alone.

    Args:
        plan: From `plan_shards`; it opens the data once in each process.
        number: 0 <= number < len(plan).

    Returns:
        The entry: name, begin and end (positions in the order), samples, bytes, source_bytes, sha256 of its
        bytes, and the number of bad samples.

    Raises:
        TransientError: A sample cannot be read, or the destination cannot be written; nothing is noted, so that
            another attempt makes the shard.
        PrepareError: The data cannot be opened on this machine or has changed, the destination has another plan, or the plan was
            made with other versions of this package or of pyarrow.
        IndexError: There is no such shard.

    Example:
        >>> from readers.prepare import make_shard, plan_shards
        >>> plan = plan_shards("photos/", "made/")
        >>> entry = make_shard(plan, 0)
        >>> entry["name"], entry["samples"], make_shard(plan, 0) == entry
        ('shard-000000.tar', 36, True)
    """
    return ShardMaker(plan).make(number)


class ShardMaker:
    """Makes shards of a plan in this process.

    Args:
        plan: The plan.
        workers: Make samples ready; None does so one after the other.
        packer: What they do; None makes it of the plan.
    """

    def __init__(
        self, plan: Plan, workers: Threads | None = None, packer: Packer | None = None
    ) -> None:
        self._plan, self._workers, self._packer = plan, workers, packer

    def make(self, number: int) -> dict[str, Any]:
        """See `make_shard`."""
        if not 0 <= number < len(self._plan):
            raise IndexError(f"a shard is one of {len(self._plan)}, got {number}")
        if (entry := finished_entry(self._plan, number)) is not None:
            return noted(entry)
        if self._packer is None:
            self._packer = packer_of(self._plan)
        place, name = self._plan.destination, self._plan.name(number)
        if place.read(PLAN) != self._plan.document():
            raise PrepareError(
                f"{shown_path(place.location)} has another plan of shards, or none any more: give a new folder"
            )
        try:
            content, bad = self._write(name, self._plan.stretch(number), self._packer)
        except OSError as error:
            raise TransientError(
                f"{shown_path(place.at(name))} cannot be made ({error.strerror or error}): the shards that are there "
                "are whole, so mend it and run the same command again"
            ) from None
        return noted(_note(self._plan, number, content, bad))

    def _write(
        self, name: str, stretch: range, packer: Packer
    ) -> tuple[dict[str, Any], list[BadSample]]:
        bad: list[BadSample] = []
        try:
            return self._written(name, self._samples(stretch, packer, bad), None), bad
        except ColumnError:
            bad.clear()
        # A later sample has another field than those of the first row group: look at all of them, then begin anew.
        plain = Packer(packer.dataset, packer.order, headers=False, copied=False)
        samples = self._samples(stretch, plain, [], here=True)
        fields = tuple(dict.fromkeys(field for one in samples for field in extra_fields(one)))
        return self._written(name, self._samples(stretch, packer, bad), fields), bad

    def _written(
        self, name: str, samples: Iterator[Packed], fields: tuple[str, ...] | None
    ) -> dict[str, Any]:
        first = next(samples, None)
        if first is None:
            return Contents().noted(0) | {"sha256": ""}
        place, whole = self._plan.destination, chain([first], samples)
        if self._plan.format == "tar":
            heads: list[Head] = []
            with create_indexed(place, name, SCAN, heads.append) as file:
                noted, checkpoints = self._filled(file, whole, fields)
            files = [SampleFile(place.at(name), heads[0].digest[:32], noted["samples"])]
        else:
            with place.create(name) as file:
                noted, checkpoints = self._filled(file, whole, fields)
            files = ParquetDataset(place.at(name)).sample_files if checkpoints else []
        if self._plan.finder is not None:
            write_beside(files[0], self._plan.finder.version, checkpoints)
        return noted

    def _filled(
        self, file: BinaryIO, samples: Iterable[Packed], fields: tuple[str, ...] | None
    ) -> tuple[dict[str, Any], list[Entry]]:
        """Write the samples of a shard; return what is noted of it, and the checkpoints that were found."""
        digest = DigestFile(file)
        shard: TarShard | ParquetShard
        if self._plan.format == "tar":
            shard = TarShard(digest)
        else:
            shard = ParquetShard(digest, self._plan.class_names, fields)
        try:
            for sample in samples:
                shard.add(sample)
            noted = shard.close() | {"sha256": digest.hexdigest()}
            return noted, shard.contents.checkpoints
        except BaseException:
            shard.abandon()
            raise

    def _samples(
        self, stretch: range, packer: Packer, bad: list[BadSample], *, here: bool = False
    ) -> Iterator[Packed]:
        """The samples that can be packed; those that cannot are added to a list."""
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


def _note(plan: Plan, number: int, content: dict[str, Any], bad: list[BadSample]) -> dict[str, Any]:
    """Write the entry of a shard that is there."""
    stretch = plan.stretch(number)
    place = {"name": plan.name(number), "begin": stretch.start, "end": stretch.stop}
    listed = [{"key": one.key, "stage": one.stage, "reason": one.reason} for one in bad]
    entry = {"plan": plan.identity} | place | content | {"bad_samples": listed}
    with plan.destination.create(plan.entry_name(number)) as file:
        file.write(json.dumps(entry).encode())
    return entry


def packer_of(plan: Plan, *, copied: bool = False) -> Packer:
    """What makes the samples of a plan ready.

    Raises:
        PrepareError: The data cannot be opened here, the plan does not say where it is, or was made with other versions.
    """
    require_versions(plan)
    if plan.source is None:
        raise PrepareError(
            "this plan was read from its destination and does not say where the data is: make it of the data again"
        )
    dataset = plan.source.open()
    order = order_of(plan.settings, len(dataset))
    in_tar = plan.format == "tar"
    return Packer(dataset, order, in_tar, copied=copied, finder=plan.finder)


def finished_entry(plan: Plan, number: int) -> dict[str, Any] | None:
    """The entry of a shard that is done: it is there, and the file as long as it says. Else None.

    Raises:
        PrepareError: It is of another plan.
    """
    stored = plan.destination.read(plan.entry_name(number))
    if stored is None:
        return None
    try:
        entry: dict[str, Any] = json.loads(stored)
        identity, size_bytes = entry["plan"], entry["bytes"]
    except (ValueError, KeyError, TypeError):
        return None  # then it is made again
    if identity != plan.identity:
        raise PrepareError(
            f"{shown_path(plan.destination.location)} holds shards of another plan, such as {entry['name']}: give a new "
            "folder"
        )
    if size_bytes and plan.destination.size_bytes(entry["name"]) != size_bytes:
        return None
    return entry


def noted(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry with the number of its bad samples for their list."""
    return entry | {"bad_samples": len(entry["bad_samples"])}
