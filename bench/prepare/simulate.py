"""Preparations larger than any that was carried out, simulated: ``python -m bench.prepare.simulate [FILE.json]``."""

import sys
import time
import tracemalloc
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from bench.output.results import document, write_json
from bench.prepare.fates import Fates
from bench.prepare.simulated_cluster import Machines, SimulatedCluster
from bench.prepare.simulated_storage import Storage
from readers.prepare.executor import Job
from readers.prepare.scheduling import Policy, run_tasks

_IMAGES, _PLACES = 5_000_000_000, 1000
_BYTES_PER_SECOND = 68e6  # of a worker that reads, packs and writes: a shard of 1 GB takes 15 s
_IMAGE_BYTES = 102_000
_FAILING: dict[str, Any] = {"slow": 0.01, "slow_factor": 10.0, "hang": 1e-5, "die": 0.02}


@dataclass(frozen=True)
class Case:
    """A preparation to simulate.

    Attributes:
        name: For people.
        shards: How many tasks.
        fates: How attempts go.
        machines: What there is.
        policy: How it is scheduled.
    """

    name: str
    shards: int
    fates: Fates
    machines: Machines
    policy: Policy = field(default_factory=Policy)


def cases() -> list[Case]:
    """A thousand tasks of which one in fifty dies, and five billion images on a thousand workers."""
    small = Case("1,000 tasks, 1 in 50 dies", 1000, Fates(15, die=0.02), Machines(1, 10))
    calm = Machines(100, 10, driver_seconds=0.001)
    storm = Machines(100, 10, node_dies_seconds=120, cut_off=4, driver_seconds=0.001)
    found = [small]
    for shards in (100_000, 1_000_000):
        seconds = _IMAGES * _IMAGE_BYTES / shards / _BYTES_PER_SECOND
        for name, fates, machines, overtake in (
            ("nothing fails", Fates(seconds), calm, 2.0),
            ("all of it fails", Fates(seconds, **_FAILING), storm, 2.0),
            ("all of it but hanging, none overtaken", _without_hanging(seconds), storm, None),
        ):
            text = f"{_IMAGES:,} images in {shards:,} shards, {name}"
            found.append(Case(text, shards, fates, machines, Policy(overtake=overtake)))
    return found


def simulate(case: Case) -> dict[str, Any]:
    """Carry out a case, and return what came of it.

    Raises:
        PrepareError: A shard is missing at the end.
        AssertionError: Something that is marked as done is not whole.
    """
    storage = Storage(case.shards)
    cluster = SimulatedCluster(storage, case.fates, case.machines)
    start_seconds = time.perf_counter()
    job = Job(abs, range(case.shards), what="shard")
    done = sum(1 for _ in run_tasks(job, cluster, case.policy, cluster.clock))
    assert storage.is_sound()
    assert done == storage.merge()
    places = case.machines.nodes * case.machines.places
    ideal_seconds = case.shards * case.fates.seconds / places
    return {
        "name": case.name,
        "shards": case.shards,
        "places": places,
        "task_seconds": round(case.fates.seconds, 2),
        "makespan_seconds": round(cluster.clock(), 1),
        "of_the_ideal": round(cluster.clock() / ideal_seconds, 3),
        "written_twice": int((storage.made.astype(np.int64) - 1).clip(0).sum()),
        **asdict(cluster.counts),
        "wall_seconds": round(time.perf_counter() - start_seconds, 1),
    }


class _Instant:
    """A thousand places whose tasks end at once; a handle is a number, so that what is held is the driver's own."""

    def submit(self, number: int) -> int:
        return number

    def wait(self, handles: Collection[int], timeout_seconds: float) -> list[int]:
        del timeout_seconds
        return list(islice(handles, 100))

    def result(self, handle: int) -> int:
        return handle

    def cancel(self, handles: Collection[int]) -> None:
        del handles

    def capacity(self) -> int:
        return _PLACES


def driver_bytes(count: int) -> int:
    """Return the most memory that the scheduling of so many tasks takes."""
    tracemalloc.start()
    try:
        assert sum(1 for _ in run_tasks(Job(abs, range(count)), _Instant())) == count
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _without_hanging(seconds: float) -> Fates:
    return Fates(seconds, **(_FAILING | {"hang": 0.0}))


def main(path: str | None) -> None:
    """Simulate every case, print the results, and write them to a file."""
    console, results = Console(), []
    for case in cases():
        results.append(simulate(case))
        console.print(results[-1])
    if path:
        held = {f"{count:,} tasks": driver_bytes(count) for count in (1000, 1_000_000)}
        write_json(Path(path), document("prepare.simulate", {"held bytes": held}, results))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
