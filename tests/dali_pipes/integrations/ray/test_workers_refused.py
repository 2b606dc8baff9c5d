"""What remote workers cannot do is said in one sentence, and what they find wrong names their machine."""

import platform
import shutil
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from dali_pipes import ClusterError, Execution, LoaderError, MissingPackageError
from dali_pipes.integrations.ray import cluster, worker_pool
from dali_pipes.integrations.ray.consistency import (
    probe,
    require_same_data,
    require_same_versions,
    versions,
)
from dali_pipes.integrations.ray.maker import as_bytes, as_memory
from dali_pipes.integrations.ray.workers import RayWorkers
from dali_pipes.stages.shared_memory import Frame
from gpu_aug import HorizontalFlip, RandomResizedCrop, Recipe
from readers import Dataset, Sample, open_dataset
from tests.support.loaders import loader_maker
from tests.support.tars import write_samples

RECIPE = Recipe([RandomResizedCrop(24), HorizontalFlip()])


class Peculiar:
    """A dataset whose second read fails in a way of its own."""

    class_names = ()
    fingerprint = "peculiar"

    def __init__(self, inner: Dataset) -> None:
        self.inner = inner

    def __len__(self) -> int:
        return len(self.inner)

    def fetch(self, indices: Sequence[int]) -> list[Any]:
        """Raise for sample 2, of which nobody takes a probe."""
        if 2 in indices:
            raise KeyError("the store is away")
        return self.inner.fetch(indices)


@pytest.fixture
def folder(tmp_path: Path, jpeg: Callable[..., bytes]) -> Path:
    """Eight images."""
    root = tmp_path / "images"
    root.mkdir()
    for number in range(8):
        (root / f"{number:02d}.jpg").write_bytes(jpeg(60, 90, seed=number))
    return root


load = loader_maker(RECIPE, batch_size=2, workers=RayWorkers(2), num_threads=None)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"execution": Execution(helper_process=True)},
            "helper_process=True and workers= both .* leave one of them out",
        ),
        ({"num_threads": 2}, "num_threads=2 is for threads of this machine"),
        ({"workers": 2}, r"workers=2 is not allowed; give RayWorkers\(count\)"),
    ],
)
def test_arguments(folder: Path, options: dict[str, Any], words: str) -> None:
    """Arguments that do not go together are named."""
    with pytest.raises(LoaderError, match=words):
        load(open_dataset(folder), **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"count": 0}, "count=0 is not allowed"),
        ({"count": 1, "num_cpus": 0}, "num_cpus=0 is not allowed"),
        ({"count": 1, "deadline_seconds": float("nan")}, "deadline_seconds=nan is not allowed"),
        ({"count": 1, "placement": {"max_restarts": 3}}, "placement has 'max_restarts'; allowed"),
    ],
)
def test_workers(options: dict[str, Any], words: str) -> None:
    """Numbers that cannot be, and options of Ray that are ours to choose."""
    with pytest.raises(LoaderError, match=words):
        RayWorkers(**options)


def test_without_ray(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Ray is not installed the loader says how to install it."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "ray"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'gpu-aug\[ray\]'"):
        load(open_dataset(folder))


def test_streams_and_locks(folder: Path) -> None:
    """A stream, and a dataset that cannot be pickled, are refused when the loader is made."""
    pytest.importorskip("ray")
    samples = {"00": {"jpg": (folder / "00.jpg").read_bytes()}}
    shard = write_samples(folder.parent / "shard.tar", samples)
    with pytest.raises(LoaderError, match="this is a stream, which is read forward"):
        load(open_dataset(shard, format="stream"), shuffle="block")
    locked = Peculiar(open_dataset(folder))
    locked.lock = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(LoaderError, match=r"workers=RayWorkers.* but dataset cannot .*lock"):
        load(locked)


def test_a_dataset_that_is_another_one(folder: Path, jpeg: Callable[..., bytes]) -> None:
    """A missing file, other bytes and fewer samples are named with the machine that found them."""
    dataset, here = open_dataset(folder), platform.node()
    expected = probe(dataset)
    require_same_data(dataset, expected)
    (folder / "04.jpg").write_bytes(jpeg(60, 90, seed=99))
    with pytest.raises(ClusterError, match=f"worker on {here} reads other data as .*04.jpg"):
        require_same_data(open_dataset(folder), expected)
    (folder / "00.jpg").unlink()
    with pytest.raises(ClusterError, match=f"worker on {here} cannot read .*00.jpg .*No such file"):
        require_same_data(dataset, expected)
    with pytest.raises(ClusterError, match="finds 7 samples in the dataset instead of 8"):
        require_same_data(open_dataset(folder), expected)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("permuted", [False, True])
def test_images_as_bytes(dtype: torch.dtype, permuted: bool) -> None:
    """Images become bytes and images again without a copy, also none at all."""
    for count in (0, 3):
        shape = (5, 4, 6, 3)
        memory = torch.arange(count * 72).reshape(count, 4, 6, 3).to(dtype)
        images = memory.permute(0, 3, 1, 2) if permuted else memory
        data = as_bytes(images)
        data.flags.writeable = False
        again = Frame(shape, dtype, permuted).images(as_memory(data), count)
        assert torch.equal(again, images)
        assert again.stride() == images.stride()
        assert not count or again.data_ptr() == images.data_ptr()


@pytest.mark.long
@pytest.mark.usefixtures("ray_cluster")
class TestOnACluster:
    def test_an_error_of_the_dataset(self, folder: Path) -> None:
        """What a read raises arrives as itself, after the batches before it, with the machine as a note."""
        batches = iter(load(Peculiar(open_dataset(folder)), shuffle="none"))
        next(batches)
        with pytest.raises(KeyError, match="the store is away") as caught:
            next(batches)
        assert f"raised by the worker on {platform.node()}" in caught.value.__notes__[-1]
        assert "in fetch" in caught.value.__notes__[-1]

    def test_data_that_only_the_trainer_has(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A worker that finds nothing under the path names its machine and the path."""
        dataset, look = open_dataset(folder), probe

        def looked(data: Any) -> Any:
            found = look(data)
            shutil.rmtree(folder)
            return found

        monkeypatch.setattr(worker_pool, "probe", looked)
        with pytest.raises(ClusterError, match=f"worker on {platform.node()} cannot read 00.jpg"):
            list(load(dataset))

    def test_other_versions(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Workers with other versions are refused by name."""
        monkeypatch.setattr(worker_pool, "versions", lambda: {"numpy": "1.0"})
        with pytest.raises(ClusterError, match=rf"numpy {np.__version__} instead of 1\.0"):
            list(load(open_dataset(folder)))

    def test_no_room(self, folder: Path) -> None:
        """Batches that would fill the object store are refused before anything starts, with both numbers."""
        loader = load(open_dataset(folder), Recipe([RandomResizedCrop(1000)]))
        with pytest.raises(ClusterError, match=r"it has 150 MiB, .* take 92 MiB: start Ray"):
            list(loader)

    def test_no_such_machine(self, folder: Path) -> None:
        """Workers that no machine could take are refused, for Ray would wait for ever."""
        for workers in (
            RayWorkers(1, num_cpus=99),
            RayWorkers(1, placement={"resources": {"x": 1}}),
            RayWorkers(1, placement={"memory": 10**15}),
        ):
            with pytest.raises(ClusterError, match="no machine of the Ray cluster has that"):
                list(load(open_dataset(folder), workers=workers))

    def test_no_machine_of_that_placement(
        self,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """It is quoted, and waited for no longer than for a cluster that must grow."""
        monkeypatch.setattr(worker_pool, "_WARN_SECONDS", 1.0)
        monkeypatch.setattr(worker_pool, "_GIVE_UP_SECONDS", 3.0)
        workers = RayWorkers(1, placement={"label_selector": {"zone": "nowhere"}})
        with pytest.raises(ClusterError, match=r"'zone': 'nowhere'.* free, but on no machine of"):
            list(load(open_dataset(folder), workers=workers))
        assert "each needs 1 CPU with placement={'label_selector'" in caplog.text

    def test_what_is_said_of_a_stall(self, folder: Path) -> None:
        """Workers tell what their threads do; one that has not started says so."""
        with load(open_dataset(folder), workers=RayWorkers(5, num_cpus=1)) as loader:
            assert "5 workers on Ray, not started yet" in loader.explain()
            loop = iter(loader)
            next(loop)
            source = loader._epochs.running_loop().gi_frame.f_locals["source"]  # type: ignore[union-attr]
            words = source.describe_remote_threads(20)
        for said in (
            f"on {platform.node()}, which has",
            "What its threads do:",
            "is starting, or waits until the cluster has 1 CPU",
        ):
            assert said in words


@pytest.mark.parametrize("name", ["OpenCV", "numba", "pillow", "torchvision", "av"])
def test_another_library_of_pixels_is_refused(name: str) -> None:
    """Also one that the trainer has and the worker has not, or the other way around."""
    driver = {**versions(), name: "0.1"}
    with pytest.raises(ClusterError, match=rf"has {name} \S+ instead of 0\.1: install the same"):
        require_same_versions(driver)


def test_rooms_are_asked_of_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of a machine's store may be taken, and machines that are dead do not count."""
    resources = {"object_store_memory": 100 << 20, "CPU": 2}
    nodes = [
        {"NodeID": "a", "Alive": True, "Resources": resources},
        {"NodeID": "b", "Alive": False, "Resources": {"CPU": 64}},
    ]
    monkeypatch.setattr(cluster, "require_ray", lambda: SimpleNamespace(nodes=lambda: nodes))
    cluster.require_store("a", 50 << 20, "here")
    with pytest.raises(ClusterError, match="object store of here is too small: it has 100 MiB"):
        cluster.require_store("a", (50 << 20) + 1, "here")
    with pytest.raises(ClusterError, match=r"the most is 2 CPU, on 1 machines"):
        cluster.require_machine("a worker", {"CPU": 4})


class OneIsAway:
    """A dataset whose first sample raises an error, and whose others have the given bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __len__(self) -> int:
        return 3

    def fetch(self, indices: Sequence[int]) -> list[Sample]:
        """Raise an error for the first sample."""
        if 0 in indices:
            raise OSError("away")
        return [Sample(index, f"s{index}", {"jpg": self.data}) for index in indices]


def test_the_others_are_compared_if_one_sample_is_away() -> None:
    """An error in one of the compared samples does not hide that the others differ."""
    expected = probe(OneIsAway(b"here"))  # type: ignore[arg-type]
    assert sorted(expected.samples) == [1, 2]
    with pytest.raises(ClusterError, match="reads other data as s1"):
        require_same_data(OneIsAway(b"there"), expected)  # type: ignore[arg-type]
