"""Remote workers of loaders that are in workers of Ray Train."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray")

from dali_pipes import Loader
from dali_pipes.integrations.ray.workers import RayWorkers
from gpu_aug import RandomResizedCrop, Recipe
from readers import open_dataset

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray", "ignore::FutureWarning:ray"),
]


def train(told: dict[str, str]) -> None:
    """Be a rank: loop with a remote worker and without."""
    import ray.train

    def seen(**options: Any) -> list[tuple[list[int], str]]:
        photos, recipe = open_dataset(told["data"]), Recipe([RandomResizedCrop(32)])
        with Loader(photos, recipe, batch_size=4, device="cpu", decoder="cpu", **options) as loader:
            return [
                (batch.indices.tolist(), hashlib.sha256(batch.images.numpy().tobytes()).hexdigest())
                for batch in loader
            ]

    remote, local = seen(workers=RayWorkers(1)), seen()
    rank = ray.train.get_context().get_world_rank()
    indices = [index for some, _ in local for index in some]
    (Path(told["out"]) / f"{rank}").write_text(f"{remote == local} {' '.join(map(str, indices))}")
    ray.train.report({})


def test_each_rank_may_have_workers(
    data: Path, tmp_path: Path, own_cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The actors are in the cluster that Ray Train is in; ranks share the epoch, and batches are the local ones."""
    monkeypatch.setenv("RAY_TRAIN_METRICS_ENABLED", "0")
    monkeypatch.setenv("RAY_TRAIN_ENABLE_STATE_ACTOR_RECONCILIATION", "0")
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    cluster, _ = own_cluster
    cluster.add_node(num_cpus=1)
    TorchTrainer(
        train,
        train_loop_config={"data": str(data / "photos"), "out": str(tmp_path)},
        torch_config=TorchConfig(backend="gloo"),
        scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"CPU": 1}),
        run_config=RunConfig(name="run", storage_path=str(tmp_path / "runs")),
    ).fit()

    found = [(tmp_path / str(rank)).read_text().split() for rank in range(2)]
    assert [words[0] for words in found] == ["True", "True"]
    indices = [int(word) for words in found for word in words[1:]]
    assert len(indices) == len(set(indices)) == 32
