"""Preparing data on a Ray cluster."""

import errno
import os
import sys
from platform import node
from types import ModuleType
from typing import Any

import pytest

from dali_pipes.errors import ClusterError, MissingPackageError
from dali_pipes.integrations.ray import cluster
from dali_pipes.integrations.ray.executor import RayExecutor
from readers.prepare.errors import PrepareError, TransientError
from readers.prepare.executor import Job
from readers.storage.unreadable import unreadable


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
    with unreadable("a.tar"):
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    return number


def test_the_storage_of_a_worker_may_be_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is raised in place of its error is told as one that may pass, with the machine."""
    monkeypatch.setattr(cluster, "_compare", lambda _: None)
    monkeypatch.setattr(cluster, "_fetch", lambda do: do)
    with pytest.raises(TransientError, match=r"a\.tar cannot be read: Input/output") as caught:
        cluster._carry_out({}, [fail_to_read], 0)

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


def test_what_no_node_can_hold_is_refused_at_once(ray_cluster: Any) -> None:
    """Ray itself would wait for a larger node for ever."""
    with pytest.raises(ClusterError, match=r"takes 1 cores and 10000000.0 GB .* \(the most are 2"):
        next(RayExecutor(ray_cluster.address).run(Job(square, [1], task_bytes=10**16)))


def test_a_worker_of_other_versions_refuses(
    ray_cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it unpickles anything of the job."""
    driver = cluster.versions() | {"numpy": "1.0"}
    monkeypatch.setattr(cluster, "versions", lambda: driver)

    with pytest.raises(ClusterError, match=r"the worker on \S+ has numpy 2\S+ instead of 1.0"):
        list(RayExecutor(ray_cluster.address).run(Job(square, range(3))))


def test_a_worker_without_the_package_is_a_clear_error(
    ray_cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sentence with the module that is missing there, not a traceback of Ray's."""
    only_here = ModuleType("only_here")
    exec("def carry_out(driver, do, number): return number", only_here.__dict__)
    monkeypatch.setitem(sys.modules, "only_here", only_here)
    monkeypatch.setattr(cluster, "_carry_out", only_here.carry_out)

    with pytest.raises(ClusterError, match=r"cannot import gpu-aug \(.*only_here.*py_modules"):
        list(RayExecutor(ray_cluster.address).run(Job(square, range(3))))


def test_without_ray_the_package_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the extra was left out."""
    monkeypatch.setitem(sys.modules, "ray", None)

    with pytest.raises(MissingPackageError, match=r"pip install 'gpu-aug\[ray\]'"):
        next(RayExecutor().run(Job(square, range(3))))
