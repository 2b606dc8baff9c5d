"""Servers that fail in every way they know: the data is right, or the error says what happened."""

import errno
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("obstore")

from readers import BadSample, Sample, TarDataset
from readers.storage.remote import StorageOptions, Url, configure, open_remote, stream
from tests.support.remote_data import MakeJpeg, assert_same_samples, plain, set_up, write_shards
from tests.support.s3_server import KINDS, Storage, storage

DATA = random.Random(5).randbytes(2_000_000)
PASSING = [kind for kind in KINDS if kind != "etag"]  # what a further attempt may mend
NAMES = [f"train-00{number}.tar" for number in range(3)]
PLACES = [(at, at + 900) for at in range(0, len(DATA) - 900, 300_000)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, jpeg: MakeJpeg) -> Path:
    """What the servers serve."""
    root = tmp_path_factory.mktemp("served")
    write_shards(root / "photos", jpeg, per_shard=50)
    (root / "photos" / "random.bin").write_bytes(DATA)
    return root


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[Storage]:
    with storage(folder) as server:
        yield server


@pytest.fixture
def server(running: Storage) -> Iterator[Storage]:
    """The server, which after the test fails no more."""
    yield running
    running.faults()


@pytest.fixture(autouse=True)
def _set_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    set_up(monkeypatch, tmp_path)
    yield
    configure(endpoint=None, cache_bytes=None, timeout_seconds=30.0, retries=8)


def impatient(server: Storage, **options: object) -> StorageOptions:
    usual = {"endpoint": server.url, "cache_bytes": 0, "timeout_seconds": 0.4}
    return StorageOptions(**{**usual, **options})  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", PASSING)
def test_each_fault_is_outlived(server: Storage, kind: str) -> None:
    """Four of ten answers are bad, all in the same way; the bytes are right."""
    blob = open_remote("s3://photos/random.bin", impatient(server))
    server.faults(rate=0.4, kinds=[kind], seed=2)
    assert [bytes(data) for data in blob.read(PLACES)] == [DATA[a:b] for a, b in PLACES]
    assert server.count()[kind] > 0


def test_a_dataset_is_right_with_every_fifth_answer_bad(folder: Path, tmp_path: Path) -> None:
    """All faults at once, on top of moto; indexing, reading and reading from the cache."""
    pytest.importorskip("moto")
    pytest.importorskip("flask")
    with storage("moto") as s3:
        s3.put("photos")
        for name in NAMES:
            s3.put(f"photos/{name}", (folder / "photos" / name).read_bytes())
        local = TarDataset([folder / "photos" / name for name in NAMES])
        for cache_bytes in (0, 200_000):
            s3.faults(rate=0.2, kinds=PASSING, seed=3)
            options = impatient(
                s3, cache_bytes=cache_bytes, cache_folder=str(tmp_path / "c"), block_bytes=1 << 16
            )
            far = TarDataset([Url(f"s3://photos/{name}", options) for name in NAMES])
            assert far.fingerprint == local.fingerprint
            for seed in range(2):
                assert_same_samples(far, local, seed=seed)
            counted = s3.count()
            assert sum(counted.get(kind, 0) for kind in PASSING) > 0.1 * counted["requests"]


def test_without_retries_the_same_faults_are_bad_samples(server: Storage) -> None:
    """The control: the server does fail, each failure is told, and the other shards are whole."""
    options = impatient(server, retries=0)
    far = TarDataset([Url(f"s3://photos/{name}", options) for name in NAMES])
    server.faults(rate=0.4, kinds=["503", "truncate", "reset"], seed=3)
    results = [entry for seed in range(10) for entry in far.fetch([seed, 50 + seed, 100 + seed])]
    bad = [entry for entry in results if isinstance(entry, BadSample)]
    assert 0 < len(bad) < len(results)
    assert all(entry.stage == "read" and "in 1 attempt" in entry.reason for entry in bad)
    assert all(isinstance(entry, BadSample | Sample) for entry in results)


def test_the_error_names_url_attempts_and_cause(server: Storage) -> None:
    """After the last attempt."""
    blob = open_remote("s3://photos/random.bin", impatient(server, retries=2))
    server.faults(rate=1.0, kinds=["503"])
    told = r"s3://photos/random.bin could not be read in 3 attempts .*: 503 Service Unavailable"
    with pytest.raises(OSError, match=told) as error:
        blob.read([(0, 10)])
    assert error.value.errno == errno.EIO
    assert server.count()["503"] == 3


def test_the_deadline_ends_a_read(server: Storage) -> None:
    """However many attempts would be left, and however slowly the server answers."""
    options = impatient(server, retries=100, deadline_seconds=1.0)
    blob = open_remote("s3://photos/random.bin", options)
    for kind in ("500", "drip", "stall"):
        server.faults(rate=1.0, kinds=[kind])
        with pytest.raises(OSError, match=r"could not be read in [0-9]+ attempt") as error:
            blob.read(PLACES[:3])
        assert error.value.errno == errno.ETIMEDOUT


def test_what_is_refused_is_not_asked_for_again(server: Storage) -> None:
    """A missing object costs one request, however patient the options."""
    server.count()
    with pytest.raises(Exception, match="there is no such object"):
        open_remote(f"{server.url}/photos/nothing.tar", impatient(server))
    assert server.count()["requests"] == 1


def test_a_changed_object_is_never_mixed(server: Storage) -> None:
    """Another ETag in the middle of reading makes bad samples that say so."""
    far = TarDataset([Url(f"s3://photos/{name}", impatient(server)) for name in NAMES])
    server.faults(rate=1.0, kinds=["etag"])
    results = far.fetch(np.arange(len(far)))
    assert all(isinstance(entry, BadSample) for entry in results)
    assert "has changed since it was opened" in results[0].reason  # type: ignore[union-attr]
    server.faults()
    plain(far.fetch(np.arange(len(far))))


@pytest.mark.parametrize("kind", ["truncate", "503", "reset"])
def test_a_stream_without_ranges_goes_on_where_it_broke_off(folder: Path, kind: str) -> None:
    """What was read is skipped when the whole is asked for again."""
    with storage(folder, "--no-ranges") as simple:
        path = folder / "photos" / "long.bin"
        path.write_bytes(DATA * 4)  # breaks off after several chunks
        file = stream(f"{simple.url}/photos/long.bin", impatient(simple, timeout_seconds=5))
        simple.faults(rate=0.5, kinds=[kind], seed=1)
        assert file.read() == path.read_bytes()
        assert simple.count()[kind] > 0
