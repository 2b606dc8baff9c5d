"""Remote workers that die, hang or lose their machine: the batches are those of a local loader all the same."""

import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray")

from dali_pipes import Batch, ClusterError
from dali_pipes.integrations.ray.workers import RayWorkers
from gpu_aug import HorizontalFlip, RandomResizedCrop, Recipe
from readers import Dataset, open_dataset
from tests.support.loaders import loader_maker
from tests.support.ray_cluster import ROOT, ray_nodes
from tests.support.same_batches import assert_same

pytestmark = pytest.mark.long

RECIPE = Recipe([RandomResizedCrop(32), HorizontalFlip()])


class Faulty:
    """A dataset on which a worker ends, or hangs, when it reads a sample; ``once``: the first time only."""

    class_names = ()
    fingerprint = "faulty"

    def __init__(
        self, inner: Dataset, how: str, marker: Path, *, once: bool = True, sample: int = 9
    ) -> None:
        self.inner, self.how, self.marker, self.once = inner, how, marker, once
        self.sample = sample
        self.trainer = os.getpid()

    def __len__(self) -> int:
        return len(self.inner)

    def fetch(self, indices: Sequence[int]) -> list[Any]:
        """Fail at the sample, but not in the training process."""
        if self.sample in indices and os.getpid() != self.trainer and not self._has_failed():
            if self.how == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            while True:
                signal.pause()
        return self.inner.fetch(indices)

    def _has_failed(self) -> bool:
        if self.once and self.marker.exists():
            return True
        self.marker.touch()
        return False


class Slow:
    """A dataset whose first reader waits, at its first step, until others have read six samples."""

    class_names = ()
    fingerprint = "slow"

    def __init__(self, inner: Dataset, marks: Path) -> None:
        self.inner, self.marks, self.trainer = inner, marks, os.getpid()

    def __len__(self) -> int:
        return len(self.inner)

    def fetch(self, indices: Sequence[int]) -> list[Any]:
        """Note who reads what; looks at single samples, before the steps, do not count."""
        if os.getpid() != self.trainer and len(indices) > 1:
            with suppress(FileExistsError):
                (self.marks / "first").touch(exist_ok=False)
                self._wait()
            for index in indices:
                (self.marks / f"{os.getpid()}-{index}").touch()
        return self.inner.fetch(indices)

    def _wait(self) -> None:
        until = time.monotonic() + 200
        while len(list(self.marks.glob("*-*"))) < 6:
            if time.monotonic() > until:
                raise RuntimeError("nobody overtakes")
            time.sleep(0.05)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, jpeg: Callable[..., bytes]) -> Path:
    """48 images."""
    root = tmp_path_factory.mktemp("images")
    for number in range(48):
        (root / f"{number:02d}.jpg").write_bytes(jpeg(60 + number, 90 - number, seed=number))
    return root


load = loader_maker(RECIPE, batch_size=2, seed=3, num_threads=None)


def test_a_node_is_removed(folder: Path) -> None:
    """A machine goes away in mid-epoch: its steps are made elsewhere, and every batch is that of a local loader."""
    expected = list(load(open_dataset(folder)))
    with ray_nodes(3) as (cluster, nodes):
        with load(open_dataset(folder), workers=RayWorkers(3)) as loader:
            found = []
            for batch in loader:
                found.append(batch)
                if len(found) == 6:
                    cluster.remove_node(nodes[0], allow_graceful=False)
        assert_same(found, expected)
        assert_same(list(load(open_dataset(folder), workers=RayWorkers(1))), expected)


@pytest.mark.parametrize("how", ["die", "hang"])
@pytest.mark.usefixtures("ray_cluster")
def test_a_worker_fails_once(
    folder: Path, tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker that dies, or works on a step beyond the deadline, is replaced; nothing is lost, doubled or moved."""
    expected = list(load(open_dataset(folder)))
    dataset = Faulty(open_dataset(folder), how, tmp_path / "failed")
    workers = RayWorkers(2, deadline_seconds=300 if how == "die" else 15)
    with load(dataset, workers=workers) as loader:
        assert_same(list(loader), expected)
    assert (tmp_path / "failed").exists()
    assert "of the loader is replaced: " in caplog.text


@pytest.mark.usefixtures("ray_cluster")
def test_a_slow_worker_is_overtaken_in_work_alone(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Another one makes later steps meanwhile; the batches come in order, and nobody is replaced."""
    expected = list(load(open_dataset(folder)))
    dataset = Slow(open_dataset(folder), tmp_path)

    with load(dataset, workers=RayWorkers(2), prefetch=6) as loader:
        assert_same(list(loader), expected)

    assert len({path.name.partition("-")[0] for path in tmp_path.glob("*-*")}) == 2
    assert "replaced" not in caplog.text


@pytest.mark.usefixtures("ray_cluster")
def test_a_worker_that_hangs_while_it_starts(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is replaced after the deadline; where all do, the loop ends with an error that names worker and machine."""
    expected = list(load(open_dataset(folder)))
    once = Faulty(open_dataset(folder), "hang", tmp_path / "failed", sample=0)
    with load(once, workers=RayWorkers(1, deadline_seconds=15)) as loader:
        assert_same(list(loader), expected)
    assert f"worker 0 on {platform.node()} of the loader is replaced: it has been" in caplog.text
    always = Faulty(open_dataset(folder), "hang", tmp_path / "failed", sample=0, once=False)
    with (
        load(always, workers=RayWorkers(1, deadline_seconds=2)) as loader,
        pytest.raises(ClusterError, match=r"was worker 0 on \S+: it has been starting for"),
    ):
        list(loader)


@pytest.mark.usefixtures("ray_cluster")
def test_a_step_that_ends_every_worker(folder: Path, tmp_path: Path) -> None:
    """The loop ends with an error that says how often and of what, after the batches before that step."""
    dataset = Faulty(open_dataset(folder), "die", tmp_path / "failed", once=False)
    found: list[Batch] = []
    with (
        load(dataset, workers=RayWorkers(1), shuffle="none") as loader,
        pytest.raises(ClusterError, match=r"replaced 3 times while no batch came.*ActorDied"),
    ):
        found.extend(loader)
    assert_same(found, list(load(open_dataset(folder), shuffle="none"))[:4])


LOOP = """
import sys
from dali_pipes import Loader
from dali_pipes.integrations.ray.workers import RayWorkers
from gpu_aug import RandomResizedCrop, Recipe
from readers import open_dataset

loader = Loader(open_dataset(sys.argv[1]), Recipe([RandomResizedCrop(24)]), batch_size=2,
                device="cpu", decoder="cpu", workers=RayWorkers(2, address=sys.argv[2]))
for batch in loader:
    print("a batch", flush=True)
    sys.stdin.readline()
"""


def test_the_training_process_is_killed(folder: Path, ray_cluster: Any) -> None:
    """Its actors end with it."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", LOOP, str(folder), ray_cluster.address]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "a batch\n"
        assert _makers()
        process.kill()
    until = time.monotonic() + 60
    while _makers() and time.monotonic() < until:
        time.sleep(0.2)
    assert not _makers()


def _makers() -> list[int]:
    """Processes that are actors of a loader, in a cluster of this test run."""
    found, token = [], os.environ["RAY_AUTH_TOKEN"].encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            named = path.read_bytes().startswith(b"ray::Maker")
            if named and token in path.with_name("environ").read_bytes():
                found.append(int(path.parent.name))
    return found
