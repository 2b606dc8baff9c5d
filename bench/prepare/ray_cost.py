"""What Ray costs for each shard: ``python -m bench.prepare.ray_cost PHOTOS [FILE.json]``.

Photographs are packed by one and two workers here, and by one and two nodes of one core of a Ray cluster on
this machine, in turns; and tasks that do nothing, which leave what Ray itself takes.
"""

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from rich.console import Console

from bench.output.results import document, write_json
from dali_pipes.integrations.ray.connect import require_ray
from dali_pipes.integrations.ray.executor import RayExecutor
from readers.prepare import pack
from readers.prepare.executor import Executor, Job
from readers.prepare.packing import Packing

_ROUNDS, _EMPTY, _SHARD_SIZE = 3, 1000, "1MB"
_STORE_BYTES = 100 << 20


def nothing(number: int) -> int:
    """Be a task that costs nothing."""
    return number


@contextmanager
def nodes(count: int) -> Iterator[RayExecutor]:
    """Give a cluster of so many nodes of one core."""
    ray, utils = require_ray(), require_ray("ray.cluster_utils")
    head = {"num_cpus": 0, "object_store_memory": _STORE_BYTES, "include_dashboard": False}
    cluster = utils.Cluster(initialize_head=True, connect=False, head_node_args=head)
    try:
        for _ in range(count):
            cluster.add_node(num_cpus=1, object_store_memory=_STORE_BYTES)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        yield RayExecutor(cluster.address)
    finally:
        ray.shutdown()
        cluster.shutdown()


def seconds_of(executor: Executor, job: Job[int]) -> float:
    """Carry out a job, and return how long it took."""
    start = time.perf_counter()
    assert sum(1 for _ in executor.run(job)) == len(job.numbers)
    return time.perf_counter() - start


def packed_in(
    destination: Path, source: str, count: int, executor: Executor | None
) -> tuple[float, Packing]:
    """Pack into a new folder, and return how long it took, and what came of it."""
    shutil.rmtree(destination, ignore_errors=True)
    start = time.perf_counter()
    packing = pack(
        source,
        destination,
        shard_size=_SHARD_SIZE,
        num_workers=count,
        executor=executor,
    )
    return time.perf_counter() - start, packing


def measure(source: str, count: int, folder: Path) -> dict[str, object]:
    """Measure `count` workers here and on Ray, in turns, and compare what they made."""
    here, there = folder / "here", folder / "there"
    rows: dict[str, list[float]] = {"local": [], "ray": [], "ray, nothing to do": []}
    with nodes(count) as ray:
        packed_in(there, source, count, ray)  # whose workers have started
        for _ in range(_ROUNDS):
            seconds, packing = packed_in(here, source, count, None)
            rows["local"].append(seconds)
            rows["ray"].append(packed_in(there, source, count, ray)[0])
            rows["ray, nothing to do"].append(seconds_of(ray, Job(nothing, range(_EMPTY))))
    made = [path for path in here.iterdir() if path.suffix in (".tar", ".json")]
    same = all(path.read_bytes() == (there / path.name).read_bytes() for path in made)
    per_second = {name: packing.num_shards / median(rows[name]) for name in ("local", "ray")}
    return {
        "workers": count,
        "samples": packing.num_samples,
        "shards": packing.num_shards,
        "shard_bytes": packing.totals.bytes // packing.num_shards,
        "bytes_equal": same,
        "local_shards_per_second": round(per_second["local"], 2),
        "ray_shards_per_second": round(per_second["ray"], 2),
        "ray_ms_per_empty_task": round(median(rows["ray, nothing to do"]) / _EMPTY * 1e3, 2),
        "seconds": {name: [round(one, 3) for one in all_] for name, all_ in rows.items()},
    }


def main(source: str, path: str | None) -> None:
    """Measure one and two workers, print the results, and write them to a file."""
    console, results = Console(), []
    for count in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            results.append(measure(source, count, Path(folder)))
        console.print(results[-1])
    if path:
        settings = {"rounds": _ROUNDS, "shard_size": _SHARD_SIZE}
        write_json(Path(path), document("prepare.ray_cost", settings, results))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
