"""`index` and `inspect --verify` on two Ray nodes, with a worker that dies, give what one process gives."""

import os
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dali_pipes.decode.check import CHECKS
from dali_pipes.integrations.ray.executor import RayExecutor
from dali_pipes.jpeg.finder import FINDER, JpegFinder
from readers.checkpoints.layout import Kept
from readers.prepare import (
    LocalExecutor,
    PrepareError,
    index,
    inspect,
    inspection_parts,
)
from readers.sample import Payload
from tests.support.packed import Jpeg

pytestmark = pytest.mark.long


@pytest.fixture
def shards(tmp_path: Path, jpeg: Jpeg, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of three shards with eight photographs each, one of which is cut off."""
    folder = tmp_path / "shards"
    folder.mkdir()
    for shard in range(3):
        with tarfile.open(folder / f"{shard}.tar", "w") as archive:
            for number in range(8):
                data = jpeg(100 + shard, 120 + number, seed=number)
                photo = tmp_path / f"{number}.jpg"
                photo.write_bytes(data[: -400 if (shard, number) == (1, 3) else None])
                archive.add(photo, photo.name)
    monkeypatch.setattr(inspection_parts, "_LEAST_SAMPLES", 4)
    return folder


class DyingCheck:
    """Ends the process that decodes a picture of a certain width, once."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __call__(self, data: Payload, size: tuple[int, int]) -> str:
        """Decode an image."""
        if size[1] == 125:
            die_once(self._mark)
        return CHECKS.image(data, size)


def die_once(mark: Path) -> None:
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return
    os._exit(1)


def test_indexes(ray_cluster: Any, shards: Path, tmp_path: Path) -> None:
    """Workers build them beside the shards; a shard that only they cannot read is named with its node."""
    shutil.copytree(shards, tmp_path / "other")
    here = index(str(tmp_path / "other"), num_workers=1)

    found = index(str(shards), executor=RayExecutor(ray_cluster.address))
    (shards / "1.tar").write_bytes(b"<html>" * 2000)

    assert [entry.built for _, entry in found.shards] == [True] * 3
    assert len(list(shards.glob("*.gpuaug-index"))) == 3
    assert {blob.name: entry.head.digest for blob, entry in found.shards} == {
        blob.name: entry.head.digest for blob, entry in here.shards
    }
    with pytest.raises(PrepareError, match=r"1 of 1 index.* on \S+: .*1.tar is not a tar"):
        index(str(shards), executor=RayExecutor(ray_cluster.address))


@dataclass(frozen=True)
class DyingFinder(JpegFinder):
    """Ends the process that looks through a file, once."""

    mark: Path = Path()

    def find(self, image: Payload) -> Kept:
        """Look through a file."""
        die_once(self.mark)
        return super().find(image)


def test_checkpoints(
    ray_cluster: Any, shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of shards, written by workers, and of a folder, brought back: the bytes that one process writes."""
    monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path / "cache"))
    (tmp_path / "photos").mkdir()
    for number in range(8):
        shutil.copy(tmp_path / f"{number}.jpg", tmp_path / "photos")
    found: list[list[bytes]] = []
    for executor in (LocalExecutor(1), RayExecutor(ray_cluster.address)):
        paths = []
        for source in (shards, tmp_path / "photos"):
            finder = FINDER if not found else DyingFinder(mark=tmp_path / "died")
            made = index(str(source), finder=finder, executor=executor).checkpoints
            assert made is not None
            assert made.found + made.none.total() == (24 if source == shards else 8)
            paths += [Path(path) for path in made.paths]
        found.append([path.read_bytes() for path in paths])
        for path in paths:
            path.unlink()

    assert (tmp_path / "died").exists()
    assert found[1] == found[0]
    assert len(found[0]) == 4


def test_inspections(ray_cluster: Any, shards: Path, tmp_path: Path) -> None:
    """Every number is that of one process."""
    checks = CHECKS._replace(image=DyingCheck(tmp_path / "died"))
    expected = inspect(str(shards), verify=CHECKS, num_workers=1)

    found = inspect(str(shards), verify=checks, executor=RayExecutor(ray_cluster.address))

    assert (tmp_path / "died").exists()
    assert (found.num_bad, found.num_looked_at, found.verified) == (1, 24, True)
    assert found.counts_to_json() == expected.counts_to_json()
    assert (found.doubled, found.labels) == (expected.doubled, expected.labels)
