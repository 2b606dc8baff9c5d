"""Connecting to a Ray cluster, and the versions of its workers."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dali_pipes.errors import ClusterError
from dali_pipes.integrations.ray.connect import connect
from dali_pipes.integrations.ray.versions import require_same, versions
from tests.support.ray_cluster import ROOT


@pytest.mark.long
def test_a_worker_has_the_code_of_its_driver(ray_cluster: Any) -> None:
    """What a worker imports has the digest of what is imported here."""
    ray = connect(ray_cluster.address)

    found = ray.get(ray.remote(lambda: versions()).remote(), timeout=60)

    assert found == versions()


@pytest.mark.long
def test_code_that_ray_sends_is_that_of_its_driver(tmp_path: Path) -> None:
    """Each package lies in a folder of its own, and none has a release: as Ray unpacks ``py_modules``."""
    folders = {name: tmp_path / f"_ray_pkg_{name}" for name in ("readers", "gpu_aug", "dali_pipes")}
    for name, folder in folders.items():
        shutil.copytree(ROOT / name, folder / name)
    script = (
        "import json; from importlib import metadata; found = metadata.version\n"
        "def version(name):\n"
        "    if name == 'gpu-aug': raise metadata.PackageNotFoundError(name)\n"
        "    return found(name)\n"
        "metadata.version = version\n"
        "from dali_pipes.integrations.ray import versions; print(versions.__file__)\n"
        "print(json.dumps(versions.versions()))"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, folders.values()))}
    answer = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()

    assert Path(answer[0]).is_relative_to(tmp_path)
    require_same(json.loads(answer[1]))


def test_another_version_is_refused_by_name() -> None:
    """The machine, the version that is there, and the one that was wanted."""
    with pytest.raises(ClusterError, match=r"numpy 2\.\S+ instead of 1\.0: install the same"):
        require_same(versions() | {"numpy": "1.0"})


@pytest.mark.long
def test_the_connected_cluster_has_several_names(ray_cluster: Any) -> None:
    """Ray names it by number; a second loader may well say "localhost" again."""
    ray = connect(ray_cluster.address)
    port = ray_cluster.address.rpartition(":")[2]

    assert connect(f"localhost:{port}") is ray
    with pytest.raises(ClusterError, match=r"was asked for: call ray\.shutdown"):
        connect(f"192.0.2.1:{port}")


def test_another_cluster_than_the_connected_one_is_refused(ray_cluster: Any) -> None:
    """Silently working on the wrong cluster would be worse."""
    connect(ray_cluster.address)

    with pytest.raises(ClusterError, match=r"was asked for: call ray\.shutdown"):
        connect("127.0.0.1:1")
