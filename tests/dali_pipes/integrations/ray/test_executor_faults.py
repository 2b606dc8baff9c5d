"""Nodes, workers and drivers that end in the middle of a preparation on Ray."""

import re
import subprocess
import sys
import time
import warnings
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from dali_pipes.integrations.ray.executor import RayExecutor
from readers.prepare.errors import PrepareError
from readers.prepare.executor import Job
from tests.support import ray_tasks
from tests.support.ray_cluster import MEGABYTE, ROOT, ray_nodes

pytestmark = pytest.mark.long
pytest.importorskip("ray")


def test_a_source_that_one_node_cannot_read_is_named_with_its_machine(
    own_cluster: tuple[Any, list[Any]],
) -> None:
    """The tasks of the other nodes are done."""
    cluster, nodes = own_cluster
    job = Job(partial(ray_tasks.fail_on, nodes[1].node_id), range(9), what="shard")

    with pytest.raises(PrepareError, match=r"of 9 shards .*, on \S+: photos/a.jpg cannot be read"):
        list(RayExecutor(cluster.address).run(job))


def test_a_cluster_that_others_keep_busy_is_waited_for_with_a_word(
    own_cluster: tuple[Any, list[Any]],
) -> None:
    """It says what is asked for and what is free; when the others end, the work is done."""
    import ray

    cluster, _ = own_cluster
    other = ray.remote(ray_tasks.Other)
    others = [other.options(num_cpus=1).remote() for _ in range(3)]
    ray.get([one.here.remote() for one in others], timeout=300)

    def end(warning: str) -> None:
        if "no task has come" in warning:
            for one in others:
                ray.kill(one)

    with warnings.catch_warnings():
        said: list[str] = []
        warnings.showwarning = lambda message, *_: (said.append(str(message)), end(str(message)))  # type: ignore[assignment]
        warnings.simplefilter("always")
        done = dict(RayExecutor(cluster.address).run(Job(abs, range(3))))

    assert done == {0: 0, 1: 1, 2: 2}
    assert [one.partition(": other")[0] for one in said] == ["no task has come for 10 seconds"]
    assert "a task takes 1 cores, and 0 cores and" in said[0]


def test_a_cluster_that_must_grow_first_is_waited_for() -> None:
    """Without any cores it is no refusal: the first machine that comes is taken."""
    import ray

    before = ray.get_runtime_context().gcs_address if ray.is_initialized() else None
    ray.shutdown()
    found: list[Any] = []
    with ray_nodes(0) as (cluster, _), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        executor = RayExecutor(cluster.address)
        worker = Thread(target=lambda: found.extend(executor.run(Job(abs, range(3)))))
        worker.start()
        until = time.monotonic() + 300
        while worker.is_alive() and not said and time.monotonic() < until:
            worker.join(0.5)
        cluster.add_node(num_cpus=1, object_store_memory=150 * MEGABYTE)
        worker.join(300)
    if before:
        ray.init(address=before, log_to_driver=False, logging_level="ERROR")

    assert sorted(found) == [(0, 0), (1, 1), (2, 2)]
    [word] = [str(one.message) for one in said]
    assert re.search(r"room for a task for 1\d seconds: start machines; they", word)


@pytest.mark.parametrize("how", ["exit", "kill"])
def test_a_worker_process_that_dies_is_replaced(ray_cluster: Any, tmp_path: Path, how: str) -> None:
    """Ended by itself, or by the kernel that is out of memory."""
    executor = RayExecutor(ray_cluster.address, max_retries=0)

    done = list(executor.run(Job(partial(ray_tasks.die, how, tmp_path), range(4))))

    assert sorted(done) == [(number, number) for number in range(4)]


def test_a_cluster_that_is_not_there_is_one_sentence(photos: list[Path], tmp_path: Path) -> None:
    """With its address, and what to look at."""
    (tmp_path / photos[0].name).write_bytes(photos[0].read_bytes())
    where = ["--on", "ray", "--ray-address", "127.0.0.1:1"]
    done = subprocess.run(
        [sys.executable, "-m", "bench", "inspect", str(tmp_path), "--verify", *where],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )

    assert done.returncode == 2
    assert "error: the Ray cluster at 127.0.0.1:1 cannot be reached" in done.stderr
    assert "Traceback" not in done.stderr
