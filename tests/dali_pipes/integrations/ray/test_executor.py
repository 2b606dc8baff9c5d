"""Preparing data on a Ray cluster: who takes part, what fails, and the bytes of one process all the same."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from platform import node
from typing import Any, Literal

import pytest

from dali_pipes.errors import ClusterError, MissingPackageError
from dali_pipes.integrations.ray import cluster
from dali_pipes.integrations.ray import executor as executors
from dali_pipes.integrations.ray.cluster import connect
from dali_pipes.integrations.ray.consistency import versions
from dali_pipes.integrations.ray.executor import RayExecutor
from dali_pipes.jpeg.seek_points import FINDER, JpegFinder
from readers.jpeg_seek_points.layout import PackedSeekPoints
from readers.prepare import LocalExecutor, index, pack
from readers.prepare.errors import PrepareError, TransientError
from readers.prepare.inspection import parts as inspection_parts
from readers.prepare.job import Job
from readers.sample import Payload
from readers.storage.unreadable import oserror_as_source_error
from tests.support import ray_tasks
from tests.support.packed import Jpeg
from tests.support.ray_cluster import ROOT
from tests.support.ray_tasks import Waiting, content


def square(number: int) -> int:
    """Be a task."""
    return number * number


def refuse(number: int) -> int:
    """Fail as the third task does."""
    if number == 2:
        raise PermissionError(13, "Permission denied", "photo.jpg")
    return number


def fail_to_read(number: int) -> int:
    """Fail as a task does that cannot reach its shard."""
    with oserror_as_source_error("a.tar"):
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    return number


def test_the_storage_of_a_worker_may_be_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is raised in place of its error is told as one that may pass, with the machine."""
    monkeypatch.setattr(executors, "require_same_versions", lambda _: None)
    monkeypatch.setattr(executors, "_fetch", lambda function: function)
    with pytest.raises(TransientError, match=r"a\.tar cannot be read: Input/output") as caught:
        executors._carry_out({}, [fail_to_read], 0)

    assert caught.value.__notes__ == [f"on {node()}"]


@pytest.mark.long
def test_every_task_is_done(ray_cluster: Any) -> None:
    """Each number comes with its result, once."""
    executor = RayExecutor(ray_cluster.address)

    assert dict(executor.run(Job(square, range(20)))) == {number: number**2 for number in range(20)}


@pytest.mark.long
def test_the_error_of_a_task_arrives_with_its_machine_when_the_others_are_done(
    ray_cluster: Any,
) -> None:
    """The kind of error is that which was raised over there."""
    executor = RayExecutor(ray_cluster.address, max_retries=1)
    done = []

    with pytest.raises(
        PrepareError, match=r"1 of 5 shards .* number 2, on \S+: .*Permission denied: 'photo"
    ) as caught:
        done.extend(executor.run(Job(refuse, range(5), what="shard")))

    assert isinstance(caught.value.__cause__, PermissionError)
    assert {number for number, _ in done} == {0, 1, 3, 4}


def test_a_worker_of_other_versions_refuses() -> None:
    """Before it unpickles anything of the job."""
    with pytest.raises(
        ClusterError, match=r"on \S+ has numpy 2\S+ instead of 1.0: install the same"
    ):
        executors._carry_out(versions() | {"numpy": "1.0"}, None, 0)


@pytest.mark.long
def test_workers_are_told_the_versions_of_their_driver(
    ray_cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker is named that has others."""
    driver = versions() | {"numpy": "1.0"}
    monkeypatch.setattr(executors, "versions", lambda: driver)

    with pytest.raises(ClusterError, match=r"the worker on \S+ has numpy 2\S+ instead of 1.0"):
        list(RayExecutor(ray_cluster.address).run(Job(square, range(3))))


def test_without_ray_the_package_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the extra was left out."""
    monkeypatch.setitem(sys.modules, "ray", None)

    with pytest.raises(MissingPackageError, match=r"pip install 'gpu-aug\[ray\]'"):
        next(RayExecutor().run(Job(square, range(3))))


@pytest.mark.long
def test_the_connected_cluster_has_several_names(ray_cluster: Any) -> None:
    """Ray names it by number; a second loader may well say "localhost" again."""
    ray = connect(ray_cluster.address)
    port = ray_cluster.address.rpartition(":")[2]

    assert connect(f"localhost:{port}") is ray
    with pytest.raises(ClusterError, match=r"was asked for: call ray\.shutdown"):
        connect(f"192.0.2.1:{port}")


@pytest.mark.long
def test_a_source_that_one_node_cannot_read_is_named_with_its_machine(
    own_cluster: tuple[Any, list[Any]],
) -> None:
    """The tasks of the other nodes are done."""
    cluster, nodes = own_cluster
    job = Job(partial(ray_tasks.fail_on, nodes[1].node_id), range(9), what="shard")

    with pytest.raises(PrepareError, match=r"of 9 shards .*, on \S+: photos/a.jpg cannot be read"):
        list(RayExecutor(cluster.address).run(job))


@pytest.mark.long
def test_a_cluster_that_others_keep_busy_is_waited_for_with_a_word(
    own_cluster: tuple[Any, list[Any]],
) -> None:
    """It says what is asked for and what is free; when the others end, the work is done."""
    import ray

    cluster, _ = own_cluster
    other = ray.remote(ray_tasks.Other)
    others = [other.options(num_cpus=1).remote() for _ in range(3)]
    ray.get([one.here.remote() for one in others], timeout=300)

    def end(warning: str) -> None:
        if "no task has come" in warning:
            for one in others:
                ray.kill(one)

    with warnings.catch_warnings():
        said: list[str] = []
        warnings.showwarning = lambda message, *_: (said.append(str(message)), end(str(message)))  # type: ignore[assignment]
        warnings.simplefilter("always")
        done = dict(RayExecutor(cluster.address).run(Job(abs, range(3))))

    assert done == {0: 0, 1: 1, 2: 2}
    assert [one.partition(": other work")[0] for one in said] == ["no task has come for 10 seconds"]
    assert "A task needs 1 CPU, and 0 CPU are free" in said[0]


@pytest.mark.long
@pytest.mark.parametrize("how", ["exit", "kill"])
def test_a_worker_process_that_dies_is_replaced(ray_cluster: Any, tmp_path: Path, how: str) -> None:
    """Ended by itself, or by the kernel that is out of memory."""
    executor = RayExecutor(ray_cluster.address, max_retries=0)

    done = list(executor.run(Job(partial(ray_tasks.die, how, tmp_path), range(4))))

    assert sorted(done) == [(number, number) for number in range(4)]


def test_a_name_that_cannot_be_resolved_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a cluster by that name is the connected one is unknown then, and not denied."""

    def fail(*_: object) -> list[Any]:
        raise OSError("no name server")

    monkeypatch.setattr("socket.getaddrinfo", fail)
    with pytest.raises(
        ClusterError, match=r"cannot be resolved \(no name server\): give 10.0.0.1:6379"
    ):
        cluster._is_same("head:6379", "10.0.0.1:6379")


@pytest.mark.long
def test_a_cluster_that_is_not_there_is_one_sentence(photos: list[Path], tmp_path: Path) -> None:
    """With its address, and what to look at."""
    pytest.importorskip("ray")
    (tmp_path / photos[0].name).write_bytes(photos[0].read_bytes())
    where = ["--on", "ray", "--ray-address", "127.0.0.1:1"]
    done = subprocess.run(
        [sys.executable, "-m", "bench", "inspect", str(tmp_path), "--verify", *where],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )

    assert done.returncode == 2
    assert "error: the Ray cluster at 127.0.0.1:1 cannot be reached" in done.stderr
    assert "Traceback" not in done.stderr


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


def die_once(mark: Path) -> None:
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return
    os._exit(1)


@dataclass(frozen=True)
class DyingFinder(JpegFinder):
    """Ends the process that looks through a file, once."""

    mark: Path = Path()

    def find(self, image: Payload) -> PackedSeekPoints:
        """Look through a file."""
        die_once(self.mark)
        return super().find(image)


@pytest.mark.long
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
            made = index(str(source), finder=finder, executor=executor).seek_points
            assert made is not None
            assert made.found + made.none.total() == (24 if source == shards else 8)
            paths += [Path(path) for path in made.paths]
        found.append([path.read_bytes() for path in paths])
        for path in paths:
            path.unlink()

    assert (tmp_path / "died").exists()
    assert (found[1], len(found[0])) == (found[0], 4)


def wait_for(what: Callable[[], bool], seconds: float = 60) -> bool:
    """Whether something becomes true."""
    until = time.monotonic() + seconds
    while not what() and time.monotonic() < until:
        time.sleep(0.02)
    return what()


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    """A folder for `Waiting`."""
    folder = tmp_path / "marks"
    folder.mkdir()
    return folder


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
