"""What batches of remote workers cost beyond making them, and of the cores of the training process."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from bench.cli.arguments import check_writable
from bench.compare.images import collect
from bench.output.results import save_result
from bench.output.text import result_table, wide_console
from dali_pipes import Loader
from dali_pipes.integrations.ray.connect import require_ray
from dali_pipes.integrations.ray.crew import Crew
from dali_pipes.integrations.ray.maker import Begun, Bytes, Maker
from dali_pipes.integrations.ray.probe import Probe
from dali_pipes.integrations.ray.producer import RemoteProducer
from dali_pipes.integrations.ray.workers import RayWorkers
from dali_pipes.options import Setup
from dali_pipes.pipeline.augment import Engines
from dali_pipes.pipeline.job import Asker, make_job, pickled
from dali_pipes.pipeline.stages import Finished, Images
from dali_pipes.schedule import Plan
from gpu_aug import HorizontalFlip, Normalize, RandomResizedCrop, Recipe
from readers import Dataset

_SIZE = 224
_STORE_BYTES = 1 << 30
_PLAIN = [RandomResizedCrop(_SIZE), HorizontalFlip()]
_RECIPES = {
    torch.uint8: Recipe(_PLAIN),
    torch.bfloat16: Recipe([*_PLAIN, Normalize()]),
}
_PLACES = {"another node": 0, "the same node": 1}


class _Same:
    """Makes the first step, and returns it for all others."""

    def __init__(self, make: Callable[[Plan], tuple[Finished, Images]]) -> None:
        self._make = make
        self._made: tuple[Finished, Images] | None = None

    def make(self, plan: Plan) -> tuple[Finished, Images]:
        """Return the step as if it were another one."""
        if self._made is None:
            self._made = self._make(plan)
        return replace(self._made[0], plan=plan), self._made[1]


class _IdleMaker(Maker):
    """Makes one step alone, so that what is left is the way of a step."""

    def begin(self, versions: dict[str, str], job: Bytes, probe: Probe) -> Begun:
        """See Maker."""
        begun = super().begin(versions, job, probe)
        self._pipeline: Any = _Same(self._pipeline.make)
        return begun


class _IdleCrew(Crew):
    maker = _IdleMaker


def remote_and_show(source: str, *, seconds: float, rounds: int, json_path: Path | None) -> None:
    """Measure, print and write down.

    Args:
        source: A source as for `readers.open_dataset`.
        seconds: How long each thing is measured, in all.
        rounds: Stretches that the time is cut into.
        json_path: Where the result goes as well.

    Raises:
        readers.ReadersError: There is nothing to read.
        BenchError: Nothing there decodes.
    """
    check_writable(json_path)
    console = wide_console()
    with (
        console.status("measuring"),
        TemporaryDirectory(prefix="gpu-aug-") as folder,
        _cluster(),
    ):
        dataset = collect(source, Path(folder)).dataset
        stretch = seconds / rounds
        ways = [
            _way(dataset, dtype, batch_size, place, stretch, rounds)
            for place in _PLACES
            for dtype in _RECIPES
            for batch_size in (64, 256)
        ]
        shares = [
            _share(dataset, dtype, where, stretch, rounds)
            for dtype in _RECIPES
            for where in ("threads", "worker")
        ]
    title = "a batch on its way from a worker that makes nothing"
    table = result_table(title, "", "batch", "MB", "ms", "MB/s", "CPU ms of the trainer")
    for one in ways:
        what = f"{one['batch_size']} x {_SIZE}, {one['dtype']}, {one['place']}"
        numbers = (one[key] for key in ("mb", "ms", "mb_per_second", "trainer_cpu_ms"))
        table.add_row(what, *(f"{number:.1f}" for number in numbers))
    console.print(table)
    title = "a batch of 64 that is made, by one thread"
    table = result_table(title, "", "made by", "ms", "CPU ms of the trainer", "share of a core")
    for one in shares:
        shown = (f"{one['ms']:.1f}", f"{one['trainer_cpu_ms']:.1f}", f"{one['share']:.2f}")
        table.add_row(f"{one['made_by']}, {one['dtype']}", *shown)
    console.print(table)
    settings = {"data": source, "seconds": seconds, "rounds": rounds, "size": _SIZE}
    save_result(json_path, console, "bench remote", settings, [*ways, *shares])


@contextmanager
def _cluster() -> Iterator[None]:
    """A cluster of two nodes on this machine; the training process is on the first."""
    ray = require_ray()
    cluster_utils = require_ray("ray.cluster_utils")
    head = {"num_cpus": 1, "object_store_memory": _STORE_BYTES, "include_dashboard": False}
    cluster = cluster_utils.Cluster(initialize_head=True, connect=False, head_node_args=head)
    try:
        cluster.add_node(num_cpus=1, object_store_memory=_STORE_BYTES, resources={_resource(0): 1})
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        yield
    finally:
        ray.shutdown()
        cluster.shutdown()


def _resource(number: int) -> str:
    return f"place{number}"


def _placement(place: str) -> dict[str, Any]:
    """Options that put an actor on a node."""
    if place == "another node":
        return {"resources": {_resource(0): 0.01}}
    ray = require_ray()
    affinity = require_ray("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
    node = ray.get_runtime_context().get_node_id()
    return {"scheduling_strategy": affinity(node, soft=False)}


def _load(dataset: Dataset, dtype: torch.dtype, batch_size: int, **options: Any) -> Loader:
    usual: dict[str, Any] = {"device": "cpu", "decoder": "cpu", "dtype": dtype, "seed": 0}
    return Loader(dataset, _RECIPES[dtype], batch_size=batch_size, **usual, **options)


def _way(
    dataset: Dataset, dtype: torch.dtype, batch_size: int, place: str, stretch: float, rounds: int
) -> dict[str, Any]:
    """Measure steps that cost nothing to make."""
    workers = RayWorkers(1, placement=_placement(place))
    loader = _load(dataset, dtype, batch_size)
    setup: Setup = loader._setup
    asker = Asker("workers", "workers", require_ray("ray.cloudpickle").dumps)
    job = make_job(setup, loader.steps, asker)
    crew = _IdleCrew(workers, job, np.frombuffer(pickled(job, "the job", asker), np.uint8))
    try:
        engines = [Engines(views, setup.fetcher.recorder) for views in setup.variants]
        producer = RemoteProducer(crew, job.frames, engines)
        [plan] = islice(loader.steps.plans(0), 1)
        for _ in range(producer.capacity):
            producer.submit(plan)

        def step() -> None:
            producer.submit(plan)
            producer.take()

        found = _measure(step, stretch, rounds)
    finally:
        crew.close()
    mb = batch_size * _SIZE * _SIZE * 3 * dtype.itemsize / 1e6
    return {
        "place": place,
        "dtype": _name(dtype),
        "batch_size": batch_size,
        "mb": mb,
        **found,
        "mb_per_second": mb / found["ms"] * 1e3,
    }


def _share(
    dataset: Dataset, dtype: torch.dtype, made_by: str, stretch: float, rounds: int
) -> dict[str, Any]:
    """Measure a loader whose batches are made by a thread, or by a worker with one."""
    remote = RayWorkers(1, placement=_placement("another node"))
    how: dict[str, Any] = {"workers": remote} if made_by == "worker" else {"num_threads": 1}
    with _load(dataset, dtype, 64, **how) as loader:

        def batches() -> Iterator[Any]:
            while True:
                yield from loader

        endless = batches()
        found = _measure(lambda: next(endless), stretch, rounds)
        endless.close()  # type: ignore[attr-defined]
    share = found["trainer_cpu_ms"] / found["ms"]
    return {"made_by": made_by, "dtype": _name(dtype), **found, "share": share}


def _measure(step: Callable[[], object], stretch: float, rounds: int) -> dict[str, float]:
    """Time of a step on the wall and on the cores of this process, in milliseconds: medians of the rounds."""
    for _ in range(6):
        step()
    walls, cores = [], []
    for _ in range(rounds):
        began, cpu, count = time.perf_counter(), time.process_time(), 0
        while time.perf_counter() - began < stretch:
            step()
            count += 1
        walls.append((time.perf_counter() - began) / count * 1e3)
        cores.append((time.process_time() - cpu) / count * 1e3)
    return {"ms": median(walls), "trainer_cpu_ms": median(cores)}


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
