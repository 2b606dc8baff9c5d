"""Remote workers make the batches of a local loader, and its shards, to the bit; what they cannot do is refused in words.

All that every run tries on a cluster stands in this file, since each process of the tests needs a cluster of its own.
"""

import json
import pickle
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from dali_pipes import Batch, ImageOptions, Monitoring
from dali_pipes.errors import ClusterError
from dali_pipes.integrations.ray import executor
from dali_pipes.integrations.ray.cluster import connect
from dali_pipes.integrations.ray.executor import RayExecutor
from dali_pipes.integrations.ray.maker import as_bytes, as_memory, step_memory
from dali_pipes.integrations.ray.workers import RayWorkers
from dali_pipes.stages.assemble import batch_of
from dali_pipes.stages.augment import Engines
from dali_pipes.stages.job import HELPER, make_job
from dali_pipes.stages.remote_production import StepMaker
from dali_pipes.stages.shared_memory import Frame
from gpu_aug import ColorJitter, CutMix, HorizontalFlip, Normalize, RandomResizedCrop, Recipe
from gpu_aug.views import Views
from readers import open_dataset
from readers.prepare import pack
from readers.prepare.job import Job
from tests.support.loaders import loader_maker
from tests.support.ray_tasks import content
from tests.support.same_batches import assert_same

PLAIN = Recipe([RandomResizedCrop(24), HorizontalFlip(), ColorJitter(0.4, 0.4, 0.4), Normalize()])
MIXING = Views(
    [
        Recipe([RandomResizedCrop(24), HorizontalFlip(), CutMix(p=0.8), Normalize()]),
        Recipe([RandomResizedCrop((16, 20)), Normalize()]),
    ]
)
WORKERS = RayWorkers(2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, jpeg: Callable[..., bytes]) -> Path:
    """Two classes with 22 images, two of them bad."""
    root = tmp_path_factory.mktemp("classes")
    for number in range(22):
        place = root / f"class{number % 2}"
        place.mkdir(exist_ok=True)
        data = jpeg(40 + number, 70 - number, seed=number)
        data = {5: b"<html>", 9: data[: len(data) // 2]}.get(number, data)
        (place / f"{number:02d}.jpg").write_bytes(data)
    return root


load = loader_maker(
    PLAIN, dtype=torch.float32, seed=3, last_batch="partial", workers=WORKERS, num_threads=None
)


@pytest.mark.usefixtures("ray_cluster")
def test_two_epochs_are_those_of_threads(folder: Path, tmp_path: Path) -> None:
    """Batches, ledger, audit and a state in mid-epoch are equal over two epochs, with bad samples replaced."""
    found: dict[str, tuple[list[Batch], Any, Any, str, str]] = {}
    for name, workers in (("remote", WORKERS), ("local", None)):
        audit, ledger = tmp_path / f"{name}.audit", tmp_path / f"{name}.ledger"
        options = {"on_bad_sample": "replace", "monitoring": Monitoring(audit=audit, ledger=ledger)}
        with load(open_dataset(folder), MIXING, workers=workers, **options) as loader:
            batches = list(loader)
            loop = iter(loader)
            batches += islice(loop, 3)
            state = loader.state_dict()
            batches += loop
            assert loader.stats("run").stages["decode"].samples >= 2 * 22
            if workers is not None:
                assert 1 <= len(loader.stats().workers) <= 2  # one may still be starting
                assert "2 workers on Ray: " in loader.explain()
            bad = loader.bad_samples
            state = {**state, "attempt": ""}  # the name of a run, which differs
        found[name] = (batches, state, bad, _without_run(audit), ledger.read_text())
    assert_same(found["remote"][0], found["local"][0])
    for one, other in zip(found["remote"][1:], found["local"][1:], strict=True):
        assert one == other
    assert len(found["remote"][2]) == 4  # of two samples, in two epochs
    assert all(
        batch.images.is_contiguous(memory_format=torch.channels_last)
        for batch in found["remote"][0]
    )


@pytest.mark.parametrize("recipe", [PLAIN, MIXING])
def test_canvases_for_a_gpu(tmp_path: Path, jpeg: Callable[..., bytes], recipe: Any) -> None:
    """What a worker sends for a GPU are canvases and draws, of which the engine makes the batch of a local loader."""
    for number in range(8):
        place = tmp_path / f"class{number % 2}"
        place.mkdir(exist_ok=True)
        (place / f"{number}.jpg").write_bytes(jpeg(50, 60, seed=number))
    loader = load(
        open_dataset(tmp_path), recipe, workers=None, num_threads=2, images=ImageOptions(targets=[])
    )
    setup, steps = loader._setup, loader.steps
    job = make_job(setup, steps, HELPER)
    frames = tuple(
        Frame((steps.largest, *view.recipe.decode_size, 3), torch.uint8, permuted=False)  # type: ignore[misc]
        for view in setup.views
    )
    job = replace(job, canvases=True, frames=(frames,))
    maker = StepMaker(job, step_memory(job), "in this process")
    engines = Engines(setup.views, setup.fetcher.recorder)
    made = []
    for plan in steps.plans(0):
        finished, canvases = maker.pipeline.make(plan)
        finished = pickle.loads(maker.metadata(finished))
        shared = [
            frame.images(as_memory(as_bytes(one)), len(finished))
            for one, frame in zip(canvases, frames, strict=True)
        ]
        images = engines.augment(finished, shared)
        made.append(batch_of(finished, images, setup, lambda _: None))
    maker.pipeline.close()
    assert_same(made, list(loader))


def _without_run(audit: Path) -> str:
    """The lines of an audit but for the time and the name of a run."""
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    return json.dumps([{**line, "time": 0, "attempt": ""} for line in lines])


@pytest.mark.long
def test_packed_by_two_nodes_is_packed_by_one_process(
    ray_cluster: Any, source: str, shard_size: str, tmp_path: Path
) -> None:
    """Every shard, index, entry and the manifest, to the byte."""
    settings: Any = {"shard_size": shard_size, "shuffle": 3}

    here = pack(source, tmp_path / "here", num_workers=1, **settings)
    on_ray = RayExecutor(ray_cluster.address)
    there = pack(source, tmp_path / "there", executor=on_ray, **settings)

    assert here.num_samples == there.num_samples == 60
    assert here.num_shards >= 7
    assert content(tmp_path / "there") == content(tmp_path / "here")


def test_what_no_node_can_hold_is_refused_at_once(ray_cluster: Any) -> None:
    """Ray itself would wait for a larger node for ever."""
    with pytest.raises(ClusterError, match=r"needs 1 CPU and 10000000.0 GB .* \(the most is 2 CPU"):
        next(RayExecutor(ray_cluster.address).run(Job(abs, [1], task_bytes=10**16)))


def test_a_worker_without_the_package_is_a_clear_error(
    ray_cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sentence with the module that is missing there, not a traceback of Ray's."""
    only_here = ModuleType("only_here")
    exec("def carry_out(driver, do, number): return number", only_here.__dict__)
    monkeypatch.setitem(sys.modules, "only_here", only_here)
    monkeypatch.setattr(executor, "_carry_out", only_here.carry_out)

    with pytest.raises(ClusterError, match=r"cannot import gpu-aug \(.*only_here.*py_modules"):
        list(RayExecutor(ray_cluster.address).run(Job(abs, range(3))))


def test_another_cluster_than_the_connected_one_is_refused(ray_cluster: Any) -> None:
    """Silently working on the wrong cluster would be worse."""
    connect(ray_cluster.address)

    with pytest.raises(ClusterError, match=r"was asked for: call ray\.shutdown"):
        connect("127.0.0.1:1")
