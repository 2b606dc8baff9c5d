"""Ray clusters for the tests of this folder."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dali_pipes.integrations.ray.cluster import connect
from tests.support.example_data import make_example_data
from tests.support.ray_cluster import ray_nodes
from tests.support.ray_tasks import lay_out


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[Any]:
    """Two nodes of two cores, which nobody takes away; a test that ends nodes makes a cluster of its own."""
    pytest.importorskip("ray")
    with ray_nodes(2, num_cpus=2) as (cluster, _):
        yield cluster


@pytest.fixture
def own_cluster() -> Iterator[tuple[Any, list[Any]]]:
    """Three nodes of one core, which may be killed."""
    ray = pytest.importorskip("ray")
    before = ray.get_runtime_context().gcs_address if ray.is_initialized() else None
    ray.shutdown()
    with ray_nodes(3) as made:
        yield made
    if before:
        ray.init(address=before, log_to_driver=False, logging_level="ERROR")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data of several kinds."""
    folder = tmp_path_factory.mktemp("data")
    make_example_data(folder)
    return folder


@pytest.fixture
def ray_data(ray_cluster: Any) -> Iterator[Any]:
    """Ray Data, which says nothing, and whose settings are put back."""
    connect(ray_cluster.address)
    import ray.data

    context = ray.data.DataContext.get_current()
    before = context.execution_options.preserve_order
    context.enable_progress_bars = False
    yield ray.data
    context.execution_options.preserve_order = before


@pytest.fixture
def source(photos: list[Path], tmp_path: Path) -> str:
    """A folder of sixty photographs."""
    return lay_out(photos, tmp_path / "photos", copies=5)


@pytest.fixture
def shard_size(source: str) -> str:
    """A seventh of the source."""
    return f"{sum(photo.stat().st_size for photo in Path(source).rglob('*.jpg')) // 7}B"
