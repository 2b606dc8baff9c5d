"""Putting together what was noted of the shards of a plan."""

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from shutil import copyfileobj
from tempfile import SpooledTemporaryFile
from time import time
from typing import IO, Any, BinaryIO

from readers.plural import counted
from readers.prepare.errors import PrepareError
from readers.prepare.packed import MANIFEST, Packing, Totals
from readers.prepare.shards.making import finished_entry
from readers.prepare.shards.plan import FOLDER, Plan
from readers.prepare.shards.planning import PLAN, load_plan
from readers.prepare.workers import Threads
from readers.sample import PathLike
from readers.storage.destination import Destination, open_destination
from readers.storage.paths import is_url, shown_path

_NUM_REQUESTS = 32  # under way at a time, where each takes a journey to a store
_SPOOLED_BYTES = 16_000_000
_LEFT_OVER_SECONDS = 86_400
_NUM_NAMED = 5
_VERSION = 1


def merge(plan: Plan) -> Packing:
    """See that every shard of a plan is there, and write ``manifest.json``, which makes them a dataset.

    It takes some 20 MB of memory however many shards there are, and may be run again at any time.

    Raises:
        PrepareError: Shards are missing; the text says how many and which. Or no sample could be packed.

    Example:
        >>> from readers.prepare import make_shard, merge, plan_shards
        >>> plan = plan_shards("photos/", "merged/", bytes_per_shard=100_000)
        >>> for number in range(len(plan)):
        ...     _ = make_shard(plan, number)
        >>> merge(plan).num_samples
        36
    """
    totals, missing = Totals(), 0
    named: list[int] = []
    with (
        SpooledTemporaryFile(_SPOOLED_BYTES) as bad_samples,
        plan.destination.create(MANIFEST) as file,
    ):
        file.write(_head(plan))
        for number, entry in finished(plan, range(len(plan))):
            if entry is None:
                missing += 1
                named += [number] if len(named) < _NUM_NAMED else []
            elif not missing:
                _add(entry, file, bad_samples, totals)
        _refuse(plan, missing, named)
        _refuse_empty(totals, bad_samples)
        file.write(b'\n ],\n "bad_samples": [')
        bad_samples.seek(0)
        copyfileobj(bad_samples, file, 1 << 20)
        file.write(b"\n ]\n}")
    sweep(plan.destination)
    return Packing(plan.destination, totals)


def missing_shards(plan: Plan) -> list[int]:
    """The numbers of the shards that are not done."""
    noted = set(plan.destination.names(FOLDER))
    likely = [number for number in range(len(plan)) if plan.entry_name(number) in noted]
    done = {number for number, entry in finished(plan, likely) if entry is not None}
    return [number for number in range(len(plan)) if number not in done]


def num_missing(destination: PathLike) -> int:
    """How many shards are not done, at a destination that `pack` has written to."""
    place = open_destination(destination)
    return 0 if place.size_bytes(PLAN) is None else len(missing_shards(load_plan(destination)))


def finished(plan: Plan, numbers: Sequence[int]) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Each of these shards with its entry, None where it is not done."""
    look = partial(finished_entry, plan)
    if not is_url(plan.destination.location):
        yield from ((number, look(number)) for number in numbers)
        return
    with Threads(_NUM_REQUESTS) as threads:
        yield from zip(numbers, threads.map(look, numbers), strict=True)


def sweep(destination: Destination) -> None:
    """Remove what writers that were killed more than a day ago left behind in a folder."""
    if is_url(destination.location):
        return  # there nothing is seen of a file that was not finished
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


def _refuse(plan: Plan, missing: int, named: Sequence[int]) -> None:
    if not missing:
        return
    those = ", ".join(map(str, named)) + (", ..." if missing > len(named) else "")
    raise PrepareError(
        f"{missing} of {counted(len(plan), 'shard')} of {shown_path(plan.destination.location)} are missing ({those}): "
        "give the command again without --merge, or the --task that makes them, then merge"
    )


def _refuse_empty(totals: Totals, bad_samples: IO[bytes]) -> None:
    if totals.samples:
        return
    bad_samples.seek(0)
    bad_samples.readline()
    first = json.loads(bad_samples.readline().rstrip(b",\n"))
    raise PrepareError(
        f"no sample can be packed (the first of {totals.bad} is {first['key']}: {first['reason']}): "
        "give a source with sound images"
    )
