"""LeRobot datasets at URLs: samples are those of the local folder, and of videos few bytes are fetched."""

import multiprocessing
import pickle
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from operator import methodcaller
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

pytest.importorskip("obstore")

from dali_pipes import Loader
from dali_pipes.errors import DecodeError
from dali_pipes.video.decode import read_frames
from gpu_aug import RandomResizedCrop, Recipe
from readers import BadSample, Sample, SourceError, open_dataset
from readers.sample import TransientError
from readers.storage.unreadable import is_transient
from readers.video import VideoInfo
from tests.support.lerobot import TOP, WRIST, Robot, change_info
from tests.support.remote_data import assert_same_samples, plain, set_up
from tests.support.s3_server import Storage, storage

DELTAS = {TOP: [-0.2, 0.0, 0.1], "action": [0.0, 0.1]}
EPISODES = "meta/episodes/chunk-000/file-000.parquet"
SMALL = Recipe([RandomResizedCrop((24, 32))])
VIDEO = f"videos/{TOP}/chunk-000/file-001.mp4"
LARGE = Robot(lengths=(100, 40), sizes={TOP: (240, 320)}, options={"qp": "1"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the server serves: a bucket with a small dataset and one with large videos."""
    root = tmp_path_factory.mktemp("served")
    Robot(options={"preset": "veryfast", "bf": "2"}, gop=4).write(root / "bucket/robot")
    LARGE.files = ((0,), (1,))
    LARGE.write(root / "bucket/large")
    return root


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Storage]:
    with storage(folder) as running:
        yield running


@pytest.fixture(autouse=True)
def _set_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: Storage) -> Iterator[None]:
    set_up(monkeypatch, tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    yield
    server.faults()


@pytest.fixture
def copy(folder: Path) -> Iterator[Path]:
    """A copy of the small dataset in the bucket, to be spoilt."""
    shutil.copytree(folder / "bucket/robot", folder / "bucket/copy")
    yield folder / "bucket/copy"
    shutil.rmtree(folder / "bucket/copy")


def url_of(server: Storage, place: str) -> str:
    return place if place.startswith("s3:") else f"{server.url}/{place}"


@pytest.mark.parametrize(
    "place",
    ["s3://bucket/robot", "s3://bucket/robot/", "bucket/robot", "bucket/robot/", "bucket/robot/meta/info.json"],
)  # fmt: skip
def test_samples_are_those_of_the_folder(folder: Path, server: Storage, place: str) -> None:
    """Also of what another process unpickles; and its state is that of the folder, with which a run may go on."""
    options: dict[str, Any] = {"delta_timestamps": DELTAS, "episodes": [0, 2]}
    local = open_dataset(folder / "bucket/robot", **options)
    remote = open_dataset(url_of(server, place), **options)

    assert_same_samples(local, remote)
    assert_same_samples(local, pickle.loads(pickle.dumps(remote)))
    assert (remote.fingerprint, remote.class_names) == (local.fingerprint, local.class_names)
    assert remote.column("label").tolist() == local.column("label").tolist()
    assert len(open_dataset(url_of(server, place), split="train")) == 14


def test_another_process_reads_the_same() -> None:
    """One that was spawned, as the workers of a DataLoader must be."""
    remote = open_dataset("s3://bucket/robot")
    expected = plain(remote.fetch([0, 9]))
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        found = pool.submit(methodcaller("fetch", [0, 9]), remote).result()

    assert plain(found) == expected


def test_batches_are_those_of_the_folder(folder: Path) -> None:
    """In a run that is left in the middle at a URL, and goes on in the folder."""
    local = open_dataset(folder / "bucket/robot", delta_timestamps=DELTAS)
    remote = open_dataset("s3://bucket/robot", delta_timestamps=DELTAS)
    options: dict[str, Any] = {"batch_size": 4, "fields": ["action", "task"], "num_threads": 2}
    expected = list(Loader(local, SMALL, device="cpu", **options))
    with Loader(remote, SMALL, device="cpu", **options) as first:
        begun = list(islice(first, 2))
        state, stats = first.state_dict(), first.stats().remote
    rest = Loader(local, SMALL, device="cpu", **options)
    rest.load_state_dict(state)

    for batch, wanted in zip([*begun, *rest], expected, strict=True):
        assert torch.equal(batch.images, wanted.images)
        assert torch.equal(batch["action"], wanted["action"])
        assert (batch["task"], batch.keys) == (wanted["task"], wanted.keys)
    assert stats.cache_hits  # of blocks that the making of the index fetched


@pytest.mark.parametrize("cache_bytes", [0, None])
def test_few_bytes_are_fetched(folder: Path, server: Storage, cache_bytes: int | None) -> None:
    """Of a video that is much longer: its tables, its first frame and the packets of the window; counted by the loader."""
    size = sum(path.stat().st_size for path in (folder / "bucket/large/videos").rglob("*.mp4"))
    options: dict[str, Any] = {"delta_timestamps": {TOP: [0.0, 0.1]}}
    local = open_dataset(folder / "bucket/large", **options).take([16, 19])
    usual: dict[str, Any] = {"batch_size": 2, "device": "cpu", "shuffle": "none"}
    [expected] = Loader(local, SMALL, **usual)
    server.count()
    whole = open_dataset("s3://bucket/large", cache_bytes=cache_bytes, **options)
    [sample] = whole.fetch([16])
    of_index = server.count()["bytes"]
    with Loader(whole.take([16, 19]), SMALL, **usual) as loader:
        [found] = loader
        counted = loader.stats().remote
    of_windows = server.count()["bytes"]
    path = folder / f"bucket/large/videos/{TOP}/chunk-000/file-000.mp4"

    assert torch.equal(found.images, expected.images)
    assert size > 8_000_000
    assert of_index < size / 3
    assert of_windows < size / 8
    assert counted.bytes == of_windows
    assert isinstance(sample, Sample)
    assert bytes(sample.fields[f"{TOP}.mp4"]) == path.read_bytes()


def without_tables(root: Path) -> None:
    shutil.rmtree(root / "meta/episodes")


@pytest.mark.parametrize(
    ("spoil", "options", "says"),
    [
        (shutil.rmtree, {}, "copy is of no known kind"),
        (shutil.rmtree, {"format": "lerobot"}, "no such object.: give the folder of a LeRobot dataset"),
        (lambda root: change_info(root, codebase_version="v2.1"), {}, "of version v2.1, .*convert_dataset_v21_to_v30"),
        (lambda root: change_info(root, codebase_version="v4.0"), {}, "of version v4.0"),
        (lambda root: change_info(root, total_episodes=9), {}, "states 9 episodes, and its .* have 3"),
        (lambda root: (root / "meta/tasks.parquet").unlink(), {}, "/copy has no meta/tasks.parquet"),
        (without_tables, {}, "/copy has no tables of episodes"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("scheme", ["s3", "http"])
def test_refused(
    copy: Path,
    server: Storage,
    spoil: Callable[[Path], object],
    options: Any,
    says: str,
    scheme: str,
) -> None:
    """As for a folder, and without a list of the server's files."""
    spoil(copy)
    url = "s3://bucket/copy" if scheme == "s3" else f"{server.url}/bucket/copy"
    try:
        with pytest.raises(SourceError, match=says):
            open_dataset(url, **options)
    finally:
        copy.mkdir(exist_ok=True)


def test_tables_of_episodes_are_counted(copy: Path) -> None:
    """From chunk to chunk, as lerobot numbers them."""
    table = pq.read_table(copy / EPISODES, partitioning=None)
    (copy / EPISODES).unlink()
    places = ["chunk-000/file-000", "chunk-000/file-001", "chunk-001/file-000"]
    for number, place in enumerate(places):
        path = copy / f"meta/episodes/{place}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(table.slice(number, 1), path)
    expected = open_dataset(copy).fingerprint

    assert open_dataset("s3://bucket/copy").fingerprint == expected


def test_a_missing_video_costs_its_windows_alone(copy: Path) -> None:
    """For as long as it is missing."""
    (copy / VIDEO).rename(copy / "away")
    dataset = open_dataset("s3://bucket/copy")
    before = dataset.fetch(range(14))
    (copy / "away").rename(copy / VIDEO)

    bad = [entry for entry in before if isinstance(entry, BadSample)]
    assert [entry.index for entry in bad] == list(range(8, 14))
    assert {(one.transient, one.stage) for one in bad} == {(False, "header")}
    assert "no such object" in bad[0].reason
    assert all(isinstance(entry, Sample) for entry in dataset.fetch(range(14)))


@pytest.mark.usefixtures("copy")
def test_a_store_that_fails_leaves_nothing_in_the_index(server: Storage) -> None:
    """Neither of a video nor of a table: what it gives later counts."""
    dataset = open_dataset("s3://bucket/copy", retries=0, cache_bytes=0, decoded_bytes=0)
    server.faults(rate=1.0)
    with pytest.raises(TransientError, match=r"sample 0 .*50[03]"):
        dataset.fetch([0])
    server.faults()
    assert isinstance(dataset.fetch([0])[0], Sample)
    server.faults(rate=1.0)
    [bad] = dataset.fetch([0])
    assert isinstance(bad, BadSample)
    assert bad.transient
    assert "could not be read" in bad.reason


def test_a_read_that_fails_in_the_middle_is_transient(server: Storage) -> None:
    """It is not tried from an earlier keyframe on, as damage is; and costs the samples of that time alone."""
    dataset = open_dataset("s3://bucket/robot", retries=0, cache_bytes=0)
    sample = dataset.fetch(range(14))[5]
    assert isinstance(sample, Sample)
    video, info = sample.fields[f"{WRIST}.mp4"], dataset.camera(1).info(dataset.place(5))
    assert isinstance(info, VideoInfo)
    server.faults(rate=1.0)
    with pytest.raises(DecodeError, match=r"cannot be read: .*50[03]") as caught:
        list(read_frames(video, info, np.array([5])))
    assert is_transient(caught.value)
    assert server.count()["requests"] == 1
    options: dict[str, Any] = {"on_bad_sample": "skip", "max_bad_samples": 14}
    with Loader(dataset, SMALL, batch_size=7, device="cpu", **options) as loader:
        assert not any(batch.valid.any() for batch in loader)
    server.faults()
    assert len(list(read_frames(video, info, np.array([5])))) == 1


def test_requests_are_few(server: Storage) -> None:
    """A window that spans groups of pictures is one range for each run of packets, where they are neighbours."""
    dataset = open_dataset("s3://bucket/large", cache_bytes=0)
    [sample] = dataset.fetch([0])
    info = dataset.camera(0).info(dataset.place(0))
    server.count()
    found = dict(read_frames(sample.fields[f"{TOP}.mp4"], info, np.arange(0, 20)))

    assert len(found) == 20
    assert server.count()["requests"] == 1


@pytest.mark.parametrize("scheme", ["s3", "http"])
def test_names_of_cameras_with_signs_of_urls(folder: Path, server: Storage, scheme: str) -> None:
    """They are encoded as each server wants it."""
    robot = Robot(lengths=(2,), files=((0,),), sizes={"50% of a?#cam": (32, 48)})
    local = open_dataset(robot.write(folder / f"bucket/signs-{scheme}"))
    url = "s3://bucket" if scheme == "s3" else f"{server.url}/bucket"

    assert_same_samples(local, open_dataset(f"{url}/signs-{scheme}"))


def test_the_index_is_used_again(copy: Path, tmp_path: Path) -> None:
    """By a dataset that is opened later, until a video is replaced."""
    first = open_dataset("s3://bucket/copy", cache_bytes=0)
    first.fetch([0])
    [index] = (tmp_path / "gpu-aug-cache").glob("*.gpuaug-videos")
    made = index.stat().st_mtime_ns
    second = open_dataset("s3://bucket/copy", cache_bytes=0)
    second.fetch([0])
    assert index.stat().st_mtime_ns == made
    shutil.copy((copy / VIDEO).with_name("file-000.mp4"), copy / VIDEO)
    third = open_dataset("s3://bucket/copy", cache_bytes=0)
    assert third.fingerprint != first.fingerprint == second.fingerprint
    assert_same_samples(open_dataset(copy), third)
    [before] = second.fetch([9])
    assert isinstance(before, Sample)
    with pytest.raises(OSError, match="it has changed since it was opened"):
        bytes(before.fields[f"{TOP}.mp4"])
