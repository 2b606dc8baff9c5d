"""What the storage failed to give when it was asked is no verdict on the data: it is asked for again."""

import errno
import os
from functools import partial
from pathlib import Path
from platform import node
from typing import Any

import pytest

from dali_pipes.decode.check import CHECKS
from readers import BadSample, open_dataset
from readers.formats.files import dataset as files
from readers.formats.files import described
from readers.prepare import Plan, index, inspect, make_shard, merge, pack, plan_shards
from readers.prepare.errors import PrepareError, TransientError
from readers.prepare.job import Job
from readers.prepare.scheduling import run_tasks
from readers.prepare.shards.merging import missing_shards
from readers.storage import shards
from tests.support.first_bytes import FirstBytes
from tests.support.packed import content, manifest_of
from tests.support.remote_data import set_up
from tests.support.s3_server import storage as server

read_whole = files.read_whole


@pytest.fixture(autouse=True)
def _read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure that outlasts the further looks of `fetch` takes less time if there are none."""
    monkeypatch.setattr("readers.datasets.fetched.PAUSES_SECONDS", ())


class Storage:
    """A disk that fails to read one file, a number of times."""

    def __init__(self, name: str) -> None:
        self._name, self.code, self.left = name, errno.EIO, 0

    def read(self, path: str) -> bytes:
        """See `read_whole`."""
        if self.left and path.endswith(self._name):
            self.left -= 1
            raise OSError(self.code, os.strerror(self.code))
        return read_whole(path)


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Storage:
    """Of cats/1.jpg."""
    disk = Storage("cats/1.jpg")
    monkeypatch.setattr(files, "read_whole", disk.read)
    return disk


@pytest.fixture
def plan(source: Path, storage: Storage, tmp_path: Path) -> Plan:
    """The cats are in its first shards."""
    del storage
    return plan_shards(str(source), tmp_path / "out", bytes_per_shard=30_000)


class Here:
    """A cluster of one place, which is this process."""

    def __init__(self, job: Job[Any]) -> None:
        self._do, self.begun = job.do, 0

    def submit(self, number: int) -> tuple[int, int]:
        """Begin a task."""
        self.begun += 1
        return self.begun, number

    def wait(self, handles: Any, timeout_seconds: float) -> Any:
        """All have ended."""
        del timeout_seconds
        return list(handles)

    def result(self, handle: tuple[int, int]) -> Any:
        """Carry out the task."""
        return self._do(handle[1])

    def cancel(self, handles: Any) -> None:
        """There is nothing under way."""

    def capacity(self) -> int:
        """One place."""
        return 1


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES])
def test_a_read_that_fails_drops_no_sample(
    plan: Plan, storage: Storage, source: Path, tmp_path: Path, code: int
) -> None:
    """It is told with the machine, the shard counts as missing, and the same task makes it with every byte."""
    storage.code, storage.left = code, 1
    with pytest.raises(TransientError) as told:
        make_shard(plan, 0)

    assert (
        f"cats/1.jpg cannot be read on {node()} (the file cannot be read: {os.strerror(code)})"
        in str(told.value)
    )
    assert "run the same command again; where it stays so, make it readable" in str(told.value)
    assert missing_shards(plan) == list(range(len(plan)))
    for number in range(len(plan)):
        make_shard(plan, number)
    assert merge(plan).num_samples == 24
    pack(str(source), tmp_path / "whole", shard_size="30kB")
    assert content(tmp_path / "out") == content(tmp_path / "whole")


def test_a_file_that_is_not_there_is_left_out(plan: Plan, storage: Storage) -> None:
    """That is of the data, and is listed."""
    storage.code, storage.left = errno.ENOENT, 1

    assert make_shard(plan, 0)["bad_samples"] == 1


@pytest.mark.parametrize(("reads", "writes"), [(2, 0), (0, 1)])
def test_what_fails_is_tried_again_by_a_cluster(
    plan: Plan, storage: Storage, monkeypatch: pytest.MonkeyPatch, reads: int, writes: int
) -> None:
    """Three times more, in which a source that cannot be read and a disk with an error pass here."""
    storage.left = reads
    sync, errors = os.fsync, [OSError(errno.EIO, os.strerror(errno.EIO))] * writes

    def fail_once(descriptor: int) -> None:
        if errors:
            raise errors.pop()
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fail_once)
    job = Job(partial(make_shard, plan), range(len(plan)), what="shard")
    cluster = Here(job)

    assert (len(dict(run_tasks(job, cluster))), cluster.begun) == (
        len(plan),
        len(plan) + reads + writes,
    )
    assert merge(plan).num_samples == 24


def test_a_read_that_fails_ends_a_pack_that_is_not_complete(
    source: Path, storage: Storage, tmp_path: Path
) -> None:
    """On one machine the same command goes on, also where a plan was to be made."""
    storage.left = 1
    with pytest.raises(PrepareError, match=r"cats/1.jpg cannot be read on"):
        pack(str(source), tmp_path / "out", shard_size="30kB")
    assert not (tmp_path / "out" / "manifest.json").exists()

    assert pack(str(source), tmp_path / "out", shard_size="30kB").num_samples == 24
    assert manifest_of(tmp_path / "out")["bad_samples"] == []


def test_a_store_that_fails_drops_no_sample(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither packed, nor noted as an image without checkpoints; when it answers, all of it is there."""
    set_up(monkeypatch, tmp_path)
    pack(str(source), tmp_path / "data", shard_size="30kB")
    with server(tmp_path) as store:
        options: dict[str, Any] = {"cache_bytes": 0, "retries": 0}
        url = f"{store.url}/data/shard-000001.tar"
        plan = plan_shards(url, tmp_path / "out", **options)
        for fault, faults in (
            ("503", {"rate": 1.0, "kinds": ["503"]}),
            ("403", {"refusal": (403, "")}),
        ):
            store.faults(**faults)
            with pytest.raises(
                TransientError, match=rf"shard-000001.tar/\S+ cannot be read on .*{fault}"
            ):
                make_shard(plan, 0)
            store.faults()
        make_shard(plan, 0)

        assert merge(plan).bad_samples == []


@pytest.fixture
def shard(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tar of 24 samples, of which one cannot be read when `failing` holds an error."""
    monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path / "cache"))
    [made] = pack(str(source), tmp_path / "data").shards
    return tmp_path / "data" / str(made["name"])


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The next samples of a mapped shard fail with these errors."""
    errors: list[int] = []
    fields_of = shards._fields_of_file

    def fail(*of: Any) -> Any:
        if errors:
            code = errors.pop()
            raise OSError(code, os.strerror(code))
        return fields_of(*of)

    monkeypatch.setattr(shards, "_fields_of_file", fail)
    return errors


def test_no_verdict_is_noted_beside_a_shard(shard: Path, failing: list[int]) -> None:
    """Looking for checkpoints ends with the machine's name, and finds all of them the next time."""
    find = partial(index, str(shard), finder=FirstBytes(), num_workers=1)
    open_dataset(shard)
    failing.append(errno.EIO)
    with pytest.raises(TransientError, match=rf"shard-000000.tar/\S+ cannot be read on {node()}"):
        find()

    found = find().seek_points
    assert found is not None
    assert (found.found, found.lacking) == (24, 0)


def test_a_part_of_an_inspection_is_made_again(
    shard: Path, failing: list[int], tmp_path: Path
) -> None:
    """It tells of the sample with the machine's name, and no longer when the same command is given again."""
    look = partial(inspect, str(shard), verify=CHECKS, num_workers=1, parts=tmp_path / "parts")
    open_dataset(shard)
    failing.append(errno.EIO)

    [bad] = look().bad
    assert bad.reason == f"the shard cannot be read: Input/output error on {node()}"
    assert (look(merge=True).num_bad, look().bad, look(merge=True).num_bad) == (1, [], 0)


@pytest.mark.parametrize(("code", "transient"), [(errno.EIO, True), (errno.ENOENT, False)])
@pytest.mark.parametrize("kind", ["manifest", "table"])
def test_files_that_a_list_names(
    source: Path, monkeypatch: pytest.MonkeyPatch, kind: str, code: int, transient: bool
) -> None:
    """Whoever reads them, it is known whether the storage failed."""

    def fail(_: str) -> bytes:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(files, "read_whole", fail)
    monkeypatch.setattr(described, "read_whole", fail)
    path = source / ("all.jsonl" if kind == "manifest" else "all.csv")
    path.write_text(
        '{"file_name": "cats/1.jpg"}\n' if kind == "manifest" else "file_name\ncats/1.jpg\n"
    )
    [bad] = open_dataset(path).fetch([0])

    assert isinstance(bad, BadSample)
    assert bad.transient == transient
