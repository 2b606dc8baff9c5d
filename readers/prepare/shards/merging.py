"""The shards of a plan as parts of a job, and merging their entries into the manifest."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from shutil import copyfileobj
from tempfile import SpooledTemporaryFile
from time import time
from typing import IO, Any, BinaryIO

from readers.prepare.errors import PrepareError
from readers.prepare.job import Parts, missing_parts_error
from readers.prepare.shards.making import finished_entry
from readers.prepare.shards.plan import FOLDER, MANIFEST, Plan
from readers.prepare.shards.planning import PLAN, begun_otherwise, load_plan
from readers.prepare.workers import Threads
from readers.sample import PathLike
from readers.storage.destination import Destination, open_destination
from readers.storage.paths import is_url, shown_path

# Requests under way at a time, because each takes a round trip to a store.
_NUM_REQUESTS = 32
# Bad samples in memory; more go to a temporary file.
_SPOOLED_BYTES = 16_000_000
# Temporary files of this age are left over from killed tasks, since a shard takes minutes.
_LEFT_OVER_SECONDS = 86_400
# Shards that an error names, and one more, which is shown as dots.
_NUM_NAMED = 6
# Version of the manifest; goes up whenever readers of the old one would misread the new one.
_VERSION = 1


@dataclass
class Totals:
    """Sums over several shards.

    Attributes:
        shards: Number of shards with a file.
        samples: Number of packed samples.
        bytes: Size of all shards in bytes.
        source_bytes: Size of the packed samples in the source, in bytes.
        bad: Number of samples that could not be packed.
    """

    shards: int = 0
    samples: int = 0
    bytes: int = 0
    source_bytes: int = 0
    bad: int = 0

    def add(self, entry: Mapping[str, Any]) -> None:
        """Add the counts in the entry of a shard, without its bad samples."""
        self.shards += 1
        self.samples += entry["samples"]
        self.bytes += entry["bytes"]
        self.source_bytes += entry["source_bytes"]

    def add_made(self, entry: Mapping[str, Any]) -> None:
        """Add an entry that `make_shard` returned, with its bad samples; a shard without a good sample has no file."""
        if entry["samples"]:
            self.add(entry)
        self.bad += entry["bad_samples"]


@dataclass(frozen=True)
class Packing:
    """The result of `pack`: the shards at the destination, or those that one task of an array job made.

    Attributes:
        destination: The folder or object-store prefix of the shards.
        totals: Sums over the shards.
        is_stream: Whether the source was read from front to back.
    """

    destination: Destination = field(compare=False, repr=False)
    totals: Totals
    is_stream: bool = False

    @property
    def num_samples(self) -> int:
        """Number of packed samples."""
        return self.totals.samples

    @property
    def num_shards(self) -> int:
        """Number of shards."""
        return self.totals.shards

    @property
    def shards(self) -> list[dict[str, Any]]:
        """The entries of all shards in the manifest: name, begin and end (positions in the order), counts and SHA-256."""
        shards: list[dict[str, Any]] = self._manifest["shards"]
        return shards

    @property
    def bad_samples(self) -> list[dict[str, str]]:
        """Key, stage and reason of each sample that was not packed, from the manifest."""
        bad: list[dict[str, str]] = self._manifest["bad_samples"] if self.totals.bad else []
        return bad

    @property
    def breaks(self) -> list[dict[str, str]]:
        """Those bad samples at which reading a stream broke off, so that later samples are missing, too."""
        return [one for one in self.bad_samples if self.is_stream and one["stage"] == "read"]

    @cached_property
    def _manifest(self) -> dict[str, Any]:
        stored = self.destination.read(MANIFEST)
        if stored is None:
            raise PrepareError(
                f"{shown_path(self.destination.location)} has no {MANIFEST}: merge it when all tasks have ended"
            )
        manifest: dict[str, Any] = json.loads(stored)
        return manifest


class ShardParts(Parts[dict[str, Any]]):
    """The shards of a plan as parts of a job; a shard is done if its entry is in the folder of the plan.

    Args:
        plan: The plan.
    """

    what = "shard"
    # Memory for Python with its libraries, the samples in progress, and a row group of a Parquet shard.
    task_bytes = 400_000_000

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan.boundaries)
        self._plan = plan

    def missing(self, numbers: Sequence[int]) -> list[int]:
        """Return those of some shard numbers whose shard is not done."""
        plan, listed = self._plan, set(self._plan.destination.names(FOLDER))
        likely = [number for number in numbers if plan.entry_name(number) in listed]
        done = {number for number, entry in _entries(plan, likely) if entry is not None}
        return [number for number in numbers if number not in done]


def missing_shards(plan: Plan) -> list[int]:
    """Return the numbers of all shards of a plan that are not done."""
    return ShardParts(plan).missing(range(len(plan)))


def num_missing(destination: PathLike) -> int:
    """Return the number of shards that are not done at a destination; 0 if no pack was begun there."""
    place = open_destination(destination)
    return 0 if place.size_bytes(PLAN) is None else len(missing_shards(load_plan(destination)))


def finished_packing(place: Destination, settings: Mapping[str, Any]) -> Packing | None:
    """Return the result of a finished pack with these settings; None if shards or the manifest are missing.

    Raises:
        PrepareError: The manifest is of other data or settings, or was written by another program.
    """
    stored = place.read(MANIFEST)
    if stored is None:
        return None
    where = shown_path(place.location)
    try:
        manifest = json.loads(stored)
        before = {**manifest["settings"], "version": manifest["version"]}
        shards, is_complete = manifest["shards"], manifest["complete"]
    except (ValueError, KeyError, TypeError):
        raise PrepareError(
            f"{where}/{MANIFEST} is no manifest: give a new or empty folder"
        ) from None
    now = {**settings, "version": _VERSION}
    if before != now:
        raise begun_otherwise(where, before, now)
    if not is_complete or any(place.size_bytes(one["name"]) != one["bytes"] for one in shards):
        return None
    totals = Totals(bad=len(manifest["bad_samples"]))
    for shard in shards:
        totals.add(shard)
    return Packing(place, totals)


def merge(plan: Plan) -> Packing:
    """Check that every shard of a plan is done, write ``manifest.json``, which makes the shards a dataset, and return the result.

    Merging takes about 20 MB of memory for any number of shards, and can be repeated at any time.

    Raises:
        PrepareError: Shards are missing (the text says how many and which), or no sample could be packed.

    Example:
        >>> from readers.prepare import make_shard, merge, plan_shards
        >>> plan = plan_shards("photos/", "merged/", bytes_per_shard=100_000)
        >>> for number in range(len(plan)):
        ...     _ = make_shard(plan, number)
        >>> merge(plan).num_samples
        36
    """
    return merge_parts(plan, len(plan))


def merge_parts(plan: Plan, num_shards: int) -> Packing:
    """Merge the first `num_shards` shards of a plan, which may be the plan of a stream; see `merge`."""
    totals, num_missing = Totals(), 0
    missing: list[int] = []
    with (
        SpooledTemporaryFile(_SPOOLED_BYTES) as bad_samples,
        plan.destination.create(MANIFEST) as file,
    ):
        file.write(_head(plan))
        for number, entry in _entries(plan, range(num_shards)):
            if entry is None:
                num_missing += 1
                missing += [number] if len(missing) < _NUM_NAMED else []
            elif not num_missing:
                _add(entry, file, bad_samples, totals)
        if num_missing:
            where = plan.destination.location
            raise missing_parts_error(missing, num_missing, num_shards, ShardParts.what, where)
        _refuse_empty(totals, bad_samples)
        file.write(b'\n ],\n "bad_samples": [')
        bad_samples.seek(0)
        copyfileobj(bad_samples, file, 1 << 20)
        file.write(b"\n ]\n}")
    sweep(plan.destination)
    return Packing(plan.destination, totals)


def _entries(plan: Plan, numbers: Sequence[int]) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Yield the number and the entry of each of these shards; the entry is None if the shard is not done."""
    look = partial(finished_entry, plan)
    if not is_url(plan.destination.location):
        yield from ((number, look(number)) for number in numbers)
        return
    with Threads(_NUM_REQUESTS) as threads:
        yield from zip(numbers, threads.map(look, numbers), strict=True)


def sweep(destination: Destination) -> None:
    """Remove temporary files that killed writers left in a folder more than a day ago."""
    if is_url(destination.location):
        return  # a store does not show unfinished objects
    for folder in (destination.location, destination.at(FOLDER)):
        for path in Path(folder).glob(".gpuaug-*.part"):
            try:
                if path.stat().st_mtime < time() - _LEFT_OVER_SECONDS:
                    path.unlink()
            except OSError:
                continue  # another merge removes it as well


def _head(plan: Plan) -> bytes:
    content = {
        "version": _VERSION,
        "settings": dict(plan.settings),
        "versions": dict(plan.versions),
        "plan": plan.identity,
        "class_names": list(plan.class_names),
        "complete": True,
    }
    return json.dumps(content, indent=1).encode().removesuffix(b"\n}") + b',\n "shards": ['


def _add(entry: dict[str, Any], file: BinaryIO, bad_samples: IO[bytes], totals: Totals) -> None:
    shard = {name: value for name, value in entry.items() if name not in ("plan", "bad_samples")}
    if shard["samples"]:
        file.write((b",\n  " if totals.shards else b"\n  ") + json.dumps(shard).encode())
        totals.add(shard)
    for bad in entry["bad_samples"]:
        bad_samples.write((b",\n  " if totals.bad else b"\n  ") + json.dumps(bad).encode())
        totals.bad += 1


def _refuse_empty(totals: Totals, bad_samples: IO[bytes]) -> None:
    if totals.samples:
        return
    if not totals.bad:
        raise PrepareError("there is no sample to pack: give a source with images")
    bad_samples.seek(0)
    bad_samples.readline()
    first = json.loads(bad_samples.readline().rstrip(b",\n"))
    raise PrepareError(
        f"no sample can be packed (the first of {totals.bad} is {first['key']}: {first['reason']}): "
        "give a source with sound images"
    )
