"""Augmenting with Ray Data: the pixels of a Loader, whatever the blocks, batches and actors."""

import runpy
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ray")

from dali_pipes import Loader
from dali_pipes.integrations.ray.connect import connect
from dali_pipes.integrations.ray.data_source import DatasetSource
from readers import open_dataset

EXAMPLES = Path(__file__).resolve().parents[4] / "examples"

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),  # Ray's own
]


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names of examples/ray_data.py."""
    monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path))
    monkeypatch.syspath_prepend(str(EXAMPLES))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what it imports
        found = runpy.run_path(str(EXAMPLES / "ray_data.py"))
    sys.modules.pop("arguments")
    return found


def test_the_example(ray_cluster: Any, example: dict[str, Any]) -> None:
    """All 64 photographs that it makes are equal in both runs."""
    connect(ray_cluster.address)

    assert example["main"]([]) == 2 * 64


def test_actors_and_batches(ray_cluster: Any, example: dict[str, Any], photos: list[Path]) -> None:
    """Two actors and odd batches make the Loader's pixels of real photographs; another epoch does not."""
    connect(ray_cluster.address)
    import ray.data

    augment, dataset = example["augment"], open_dataset(photos)
    loaders = [
        Loader(
            dataset,
            example["RECIPE"],
            batch_size=8,
            seed=example["SEED"],
            device="cpu",
            last_batch="partial",
        )
        for _ in range(2)
    ]
    loaders[0].set_epoch(example["EPOCH"])
    ours, others = (
        {
            index: image.numpy().copy()
            for batch in loader
            for index, image in zip(batch.indices.tolist(), batch.images, strict=True)
        }
        for loader in loaders
    )

    class Augment:
        def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
            done: dict[str, Any] = augment(batch)
            return done

    rows = ray.data.read_datasource(DatasetSource(dataset), override_num_blocks=4)
    rows = rows.map_batches(Augment, batch_size=5, compute=ray.data.ActorPoolStrategy(size=2))
    found = {row["index"]: row["image"] for row in rows.iter_rows()}

    assert found.keys() == ours.keys()
    assert all(np.array_equal(found[index], ours[index]) for index in found)
    assert not any(np.array_equal(found[index], others[index]) for index in found)
