"""Indexes of shards in object stores, put beside them by whoever indexes."""

from pathlib import Path

import pytest

from readers import IndexFileError, open_dataset
from readers.jpeg_seek_points.store import DatasetSeekPoints
from readers.prepare import PrepareError, index, pack
from readers.prepare.job import ArrayTask, LocalExecutor
from readers.storage.destination import open_destination
from readers.storage.remote import StorageOptions
from readers.storage.remote.requests import Connection
from tests.support.executors import Backwards
from tests.support.first_bytes import FirstBytes
from tests.support.remote_data import MakeJpeg, write_shards
from tests.support.s3_server import Storage
from tests.support.stored_seek_points import read_stored


@pytest.fixture
def folder(s3: Storage, tmp_path: Path, jpeg: MakeJpeg) -> str:
    """A folder of the store with three shards in ``train``."""
    folder = f"bucket/{tmp_path.name}"
    for name in write_shards(tmp_path, jpeg):
        s3.put(f"{folder}/train/{name}", (tmp_path / name).read_bytes())
    return f"s3://{folder}"


def _refuse(*_: object) -> None:
    raise PermissionError(13, "access is denied")


def test_other_machines_find_what_one_has_published(
    s3: Storage, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks publish; a machine with an empty cache builds nothing; a second run puts nothing there."""
    with pytest.raises(IndexFileError, match="would stay on the machine that builds it: add --pub"):
        index(f"{folder}/train/*.tar", endpoint=s3.url, executor=Backwards())
    with pytest.raises(PrepareError, match="3 of 3 shards have no index"):
        index(f"{folder}/train/*.tar", endpoint=s3.url, merge=True)
    first = ArrayTask(1, 2, LocalExecutor(1))
    part = index(f"{folder}/train/*.tar", endpoint=s3.url, executor=first, publish=True)
    monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path / "second"))
    index(f"{folder}/train/*.tar", endpoint=s3.url, executor=Backwards(), publish=True)
    monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path / "third"))
    found = index(f"{folder}/train/*.tar", endpoint=s3.url, merge=True)
    monkeypatch.setattr(Connection, "put", _refuse)
    again = index(f"{folder}/train/*.tar", endpoint=s3.url, executor=Backwards(), publish=True)

    assert (len(part.lacking), [entry.built for _, entry in found.shards]) == (2, [False] * 3)
    assert len(again.shards) == 3
    names = open_destination(f"{folder}/train", StorageOptions(endpoint=s3.url)).names()
    assert sum(name.endswith(".gpuaug-index") for name in names) == 3


def test_seek_points_lie_beside_objects_as_well(
    s3: Storage, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who packs to a store puts them there, who indexes what is there puts the same; readers elsewhere find them."""
    finder, place = FirstBytes(), f"{folder}/packed"
    storage_options = StorageOptions(endpoint=s3.url)
    pack(
        f"{folder}/train/train-000.tar",
        place,
        finder=finder,
        shard_size="20kB",
        storage=storage_options,
        endpoint=s3.url,
    )
    packed_folder = open_destination(place, storage_options)
    names = [name for name in packed_folder.names() if name.endswith(".gpuaug-checkpoints")]
    packed = {name: packed_folder.read(name) for name in names}
    for name in names[1:]:
        packed_folder.remove(name)
    monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path / "second"))
    again = FirstBytes()
    index(f"{place}/*.tar", endpoint=s3.url, finder=again, num_workers=1, publish=True)
    monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path / "third"))
    dataset = open_dataset(f"{place}/*.tar", endpoint=s3.url)
    images = [bytes(sample.image or b"") for sample in dataset]
    store = DatasetSeekPoints(dataset, finder.version)
    found = read_stored(store, range(len(images)), [finder.digest(image) for image in images])

    assert len(names) > 1
    assert {name: packed_folder.read(name) for name in names} == packed
    assert 0 < len(again.looked_at) < len(images)
    assert [kept and kept.rows for kept in found] == [image[:100] for image in images]


def test_a_store_that_takes_nothing_is_one_sentence(
    s3: Storage, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what is refused and what to do; the index stays here."""
    monkeypatch.setattr(Connection, "put", _refuse)
    with pytest.raises(IndexFileError, match=r"cannot be put beside it \(.*denied.*\): use cred"):
        index(f"{folder}/train/*.tar", endpoint=s3.url, retries=0, num_workers=1, publish=True)
