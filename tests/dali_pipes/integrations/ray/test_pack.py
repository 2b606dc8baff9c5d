"""Packing photographs on a Ray cluster, whose nodes and drivers end in the middle of a shard."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from dali_pipes.integrations.ray.executor import RayExecutor
from dali_pipes.jpeg.finder import FINDER
from readers.prepare import pack
from tests.support.ray_cluster import ROOT
from tests.support.ray_tasks import Waiting, content, lay_out


def wait_for(what: Callable[[], bool], seconds: float = 60) -> bool:
    """Whether something becomes true."""
    until = time.monotonic() + seconds
    while not what() and time.monotonic() < until:
        time.sleep(0.02)
    return what()


@pytest.fixture
def source(photos: list[Path], tmp_path: Path) -> str:
    """A folder of sixty photographs."""
    return lay_out(photos, tmp_path / "photos", copies=5)


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    """A folder for `Waiting`."""
    folder = tmp_path / "marks"
    folder.mkdir()
    return folder


@pytest.fixture
def shard_size(photos: list[Path]) -> str:
    """A seventh of the source."""
    return f"{5 * sum(photo.stat().st_size for photo in photos) // 7}B"


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


@pytest.mark.long
@pytest.mark.parametrize("format", ["tar", "parquet"])
def test_a_node_that_is_killed_in_the_middle_of_a_shard_changes_no_byte(
    own_cluster: tuple[Any, list[Any]],
    source: str,
    shard_size: str,
    marks: Path,
    tmp_path: Path,
    format: Literal["tar", "parquet"],
) -> None:
    """Its shards are made elsewhere; everything at the destination is what one process makes."""
    cluster, nodes = own_cluster
    settings: Any = {"format": format, "shard_size": shard_size, "shuffle": 3}
    pack(source, tmp_path / "alone", finder=FINDER, num_workers=1, **settings)
    half_written: list[list[Path]] = []

    def kill(done: int, _: int | None) -> None:
        """Kill the first node when a shard is done elsewhere, and it has written half of one."""
        if done and not half_written:
            assert wait_for(lambda: any(marks.iterdir()), 120)
            half_written.append(list((tmp_path / "together").glob(".gpuaug-*.part")))
            cluster.remove_node(nodes[0], allow_graceful=False)

    packed = pack(
        source,
        tmp_path / "together",
        finder=Waiting(marks, nodes[0].node_id),
        executor=RayExecutor(cluster.address),
        on_progress=kill,
        **settings,
    )

    assert half_written
    assert half_written[0]
    assert packed.num_shards >= 7
    assert content(tmp_path / "together") == content(tmp_path / "alone")


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_driver_that_ends_in_the_middle_of_shards_goes_on(
    ray_cluster: Any,
    source: str,
    shard_size: str,
    marks: Path,
    tmp_path: Path,
    how: signal.Signals,
) -> None:
    """Its tasks end with it; given again, the same command does what is missing, and every byte is right."""
    pack(source, tmp_path / "alone", shard_size=shard_size, finder=FINDER, num_workers=1)
    expected = content(tmp_path / "alone")
    command = [
        *[sys.executable, "-m", "tests.support.ray_tasks", ray_cluster.address, source],
        *[str(tmp_path / "together"), shard_size, str(marks)],
    ]
    driver = subprocess.Popen(command, cwd=ROOT, start_new_session=True, stderr=subprocess.DEVNULL)
    try:
        assert wait_for(lambda: len(list(marks.iterdir())) == 4, 120)
        os.killpg(driver.pid, how)  # as a terminal does
        driver.wait(60)
    finally:
        driver.kill()

    assert driver.returncode != 0
    assert wait_for(lambda: not any(Path("/proc", path.name).exists() for path in marks.iterdir()))
    left = content(tmp_path / "together")
    assert "manifest.json" not in left
    assert left.items() < expected.items()
    (marks / "go").touch()
    subprocess.run(command, cwd=ROOT, check=True, timeout=300)
    assert content(tmp_path / "together") == expected
