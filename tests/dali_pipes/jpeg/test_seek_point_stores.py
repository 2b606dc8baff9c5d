"""What loaders find of JPEGs is kept for the next run, and makes no difference but for time."""

import ctypes
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from dali_pipes import Execution
from dali_pipes.jpeg import seek_point_stores
from dali_pipes.jpeg.seek_point_stores import StoredSeekPoints
from dali_pipes.jpeg.seek_points import (
    FINDER,
    SEEK_POINT,
    UNREAD,
    Known,
    SeekPoints,
    find_seek_points,
)
from dali_pipes.jpeg.status import CUT_SHORT, GOOD
from gpu_aug import RandomResizedCrop, Recipe
from readers import IndexedDataset, open_dataset
from readers.jpeg_seek_points.layout import HEAD_BYTES, SLOT_BYTES
from readers.prepare import index, pack
from tests.support.jpegs import encode, picture
from tests.support.loaders import loader_maker, write_images
from tests.support.stored_seek_points import read_stored

NUM_PHOTOS = 6


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The indices of samples of which loaders keep something, in turn."""
    found: list[int] = []
    store_all = StoredSeekPoints.store_all

    def keep(self: StoredSeekPoints, news: list[tuple[int, int, SeekPoints]]) -> None:
        found.extend(index for index, _, _ in news)
        store_all(self, news)

    monkeypatch.setattr(StoredSeekPoints, "store_all", keep)
    return found


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of pictures, one of them cut off inside, and an empty cache folder."""
    monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path / "cache"))
    samplings = ("4:2:0", "4:4:4", "gray") * 2
    images = [encode(picture(300, 400, number), name) for number, name in enumerate(samplings)]
    images[4] = images[4][:-2000] + images[4][-2:]
    write_images(tmp_path / "photos", images)
    return tmp_path / "photos"


load = loader_maker(
    Recipe([RandomResizedCrop(32, scale=(0.05, 0.5))]),
    batch_size=3,
    dtype=torch.uint8,
    on_bad_sample="skip",
    max_bad_samples=NUM_PHOTOS,
    num_threads=2,
)


def epochs(dataset: IndexedDataset, count: int = 1, **options: bool) -> list[torch.Tensor]:
    """The pictures of some epochs, in the order of their indices, and which of them are bad."""
    loader = load(dataset, **options)
    found = []
    for _ in range(count):
        whole = torch.zeros(len(dataset), 3, 32, 32, dtype=torch.uint8)
        for batch in loader:
            whole[batch.indices[batch.valid]] = batch.images[batch.valid]
        found.append(whole)
    return found


def cache_file(tmp_path: Path) -> Path:
    [path] = (tmp_path / "cache" / "checkpoints").iterdir()
    return path


@pytest.mark.parametrize("helper_process", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_run_begins_where_the_last_one_ended(
    photos: Path, kept: list[int], helper_process: bool
) -> None:
    """The same pictures and verdicts, and nothing is looked through again: not in a split, nor in a helper process."""
    dataset = open_dataset(photos)
    first, second = epochs(dataset, 2)
    assert sorted(kept) == list(range(NUM_PHOTOS))
    again = epochs(open_dataset(photos), 2, execution=Execution(helper_process=helper_process))
    assert torch.equal(torch.stack(again), torch.stack([first, second]))
    epochs(dataset.split(0.5, 0.5)[1])
    assert len(kept) == NUM_PHOTOS


def test_what_was_indexed_needs_no_first_epoch(photos: Path, kept: list[int]) -> None:
    """The pictures are those of a loader that knows nothing."""
    expected = epochs(open_dataset(photos))
    kept.clear()
    cache_file(photos.parent).unlink()
    index(str(photos), finder=FINDER, num_workers=1)

    assert torch.equal(epochs(open_dataset(photos))[0], expected[0])
    assert kept == []


def test_a_file_that_was_changed_is_looked_through_again(photos: Path, kept: list[int]) -> None:
    """Its picture is the new one, though name, size and time of change are as they were."""
    first = epochs(open_dataset(photos))[0]
    kept.clear()
    path = photos / "01.jpg"
    before, other = path.stat(), encode(picture(300, 400, 99), "4:4:4", quality=60)
    missing = before.st_size - len(other) - 4  # is made up for by a comment
    comment = b"\xff\xfe" + (missing + 2).to_bytes(2, "big") + bytes(missing)
    path.write_bytes(other[:2] + comment + other[2:])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    second = epochs(open_dataset(photos))[0]

    assert kept == [1]
    assert [torch.equal(a, b) for a, b in zip(first, second, strict=True)] == [
        number != 1 for number in range(NUM_PHOTOS)
    ]


def test_where_files_cannot_be_written_the_process_remembers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """So the epochs of one run are as fast as ever; the next run finds everything anew, and one line says so."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path / "file"))
    image = encode(picture(200, 300), "4:2:0")
    dataset = write_images(tmp_path / "photos", [image])
    told = np.array([FINDER.digest(image)], np.uint64)
    store = StoredSeekPoints(dataset)
    for _ in range(2):
        store.store_all([(0, int(told[0]), SeekPoints(GOOD, 8, find_seek_points(image, 8)[1]))])

    [mine] = store.look_up(np.zeros(1, np.int64), told).files
    assert mine["num_rows"] > 1
    [other] = StoredSeekPoints(dataset).look_up(np.zeros(1, np.int64), told).files
    assert (other["status"], len(caplog.records)) == (UNREAD, 1)


COUNT = 12


DIGESTS = np.arange(1, COUNT + 1, dtype=np.uint64) << np.uint64(50)


ALL = np.arange(COUNT)


@pytest.fixture
def many_photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of pictures, and an empty cache folder."""
    monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path / "cache"))
    images = [encode(picture(40 + 9 * number, 200, number), "4:2:0") for number in range(COUNT)]
    write_images(tmp_path / "many_photos", images)
    return tmp_path / "many_photos"


def store_of(folder: Path) -> StoredSeekPoints:
    """Knows rows of 0 to 3,000 bytes of each picture, and of every fifth a bad verdict; these all are made up."""
    rng = np.random.default_rng(0)
    store = StoredSeekPoints(open_dataset(folder))
    entries = []
    for number in range(COUNT):
        rows = np.zeros(0 if number % 5 == 4 else 27 * number, SEEK_POINT)
        rows["bit"], rows["dc"] = rng.integers(0, 1 << 30, len(rows)), rng.integers(-999, 999, (len(rows), 3))  # fmt: skip
        entries.append((number, int(DIGESTS[number]), SeekPoints(CUT_SHORT if number % 5 == 4 else GOOD, 8, rows)))  # fmt: skip
    store.store_all(entries)
    return store


def rows_of(known: Known) -> list[bytes | None]:
    """Status, distance and rows of each file."""
    found: list[bytes | None] = []
    for status, every, address, num_rows in known.files.tolist():
        rows = ctypes.string_at(address, 10 * num_rows)
        found.append(None if status == UNREAD else f"{status} {every} ".encode() + rows)
    return found


def expected_of(store: StoredSeekPoints, indices: np.ndarray, digests: np.ndarray) -> list[bytes | None]:  # fmt: skip
    """The same, of files as Python reads them."""
    found = [
        None if one is None else f"{one.status} {one.every} ".encode() + one.rows
        for one in read_stored(store._stored, indices, digests)
    ]
    others = rows_of(store._memory.look_up(indices, digests))
    return [mine or other for mine, other in zip(found, others, strict=True)]


@pytest.mark.parametrize("usual_bytes", [0, 1500])
def test_rows_are_those_that_were_kept(
    usual_bytes: int, many_photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In any indices and more than once, of other bytes none, and with too little room at first."""
    monkeypatch.setattr(seek_point_stores, "_USUAL_BYTES", usual_bytes)
    store = store_of(many_photos)
    indices = np.array([7, 3, 3, 0, 11, 4, 9, 1])
    digests = DIGESTS[indices].copy()
    digests[6] += np.uint64(1)
    found = rows_of(store.look_up(indices, digests))

    assert found == expected_of(store, indices, digests)
    assert [one is None for one in found] == [False] * 6 + [True, False]
    assert sum(len(one or b"") for one in found) > 5000


def test_damage_is_as_good_as_nothing(many_photos: Path, tmp_path: Path) -> None:
    """Any byte of the slots and the rows may change, or be cut off, and `readers` says the same."""
    store_of(many_photos)
    [path] = (tmp_path / "cache" / "checkpoints").iterdir()
    whole = path.read_bytes()
    rng = np.random.default_rng(1)
    lost = 0
    for trial in range(60):
        damaged = bytearray(whole)
        end = HEAD_BYTES + COUNT * SLOT_BYTES if trial % 2 else len(whole)
        for at in rng.integers(HEAD_BYTES, end, 1 + trial % 4).tolist():
            damaged[at] ^= 1 << int(rng.integers(8))
        if trial % 10 == 0:
            del damaged[int(rng.integers(HEAD_BYTES, len(damaged))) :]
        path.write_bytes(damaged)
        store = StoredSeekPoints(open_dataset(many_photos))
        found = rows_of(store.look_up(ALL, DIGESTS))
        assert found == expected_of(store, ALL, DIGESTS)
        lost += found.count(None)
    assert lost > 60


def test_slots_of_another_dataset_and_of_other_samples_are_unknown(many_photos: Path, tmp_path: Path) -> None:  # fmt: skip
    """A slot counts in its own place of its own file."""
    store = store_of(many_photos)
    [path] = (tmp_path / "cache" / "checkpoints").iterdir()
    data = bytearray(path.read_bytes())
    first, second = HEAD_BYTES, HEAD_BYTES + SLOT_BYTES
    data[second : second + SLOT_BYTES] = data[first : first + SLOT_BYTES]
    path.write_bytes(data)

    found = rows_of(store.look_up(ALL, DIGESTS[[0, 0, *range(2, COUNT)]]))
    assert [one is None for one in found[:3]] == [False, True, False]


def test_shards_are_looked_at_beside_them_and_in_the_cache_folder(many_photos: Path, tmp_path: Path) -> None:  # fmt: skip
    """What is not known beside a shard may be known in the cache folder; a split and a mixture find the same."""
    pack(str(many_photos), str(tmp_path / "shards"), shuffle=0, shard_size="20KB")
    index(str(tmp_path / "shards"), finder=FINDER, num_workers=1)
    dataset = open_dataset(str(tmp_path / "shards"))
    images = [bytes(sample.image or b"") for sample in dataset]
    digests = np.array([FINDER.digest(image) for image in images], np.uint64)
    beside = sorted((tmp_path / "shards").glob("*.gpuaug-checkpoints"))
    assert len(beside) > 1
    shutil.copy(beside[0], beside[1])  # which is of another shard: as if there were none
    store = StoredSeekPoints(dataset)
    found = rows_of(store.look_up(ALL, digests))
    assert found == expected_of(store, ALL, digests)
    assert 0 < found.count(None) < COUNT
    missing = [number for number in range(COUNT) if found[number] is None]
    store.store_all([(number, int(digests[number]), SeekPoints(GOOD, 8, np.zeros(3, SEEK_POINT))) for number in missing])  # fmt: skip

    found = rows_of(store.look_up(ALL, digests))
    assert found == expected_of(store, ALL, digests)
    assert None not in found
    beside[0].unlink()
    assert rows_of(store.look_up(ALL, digests)) == found  # its descriptor is open
