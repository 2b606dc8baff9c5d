"""What loaders find of JPEGs is kept for the next run, and makes no difference but for time."""

import ctypes
import os
import random
from pathlib import Path

import numpy as np
import pytest
import torch

from dali_pipes import Loader
from dali_pipes.jpeg.checkpoints import CHECKPOINT, UNREAD, Checkpoints, find_checkpoints
from dali_pipes.jpeg.finder import FINDER
from dali_pipes.jpeg.status import GOOD
from dali_pipes.jpeg.stored_checkpoints import StoredCheckpoints
from gpu_aug import RandomResizedCrop, Recipe
from readers import IndexedDataset, open_dataset
from readers.prepare import index
from tests.support.jpegs import encode, picture

NUM_PHOTOS = 6


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The indices of samples of which loaders keep something, in turn."""
    found: list[int] = []
    keep_all = StoredCheckpoints.keep_all

    def keep(self: StoredCheckpoints, news: list[tuple[int, int, Checkpoints]]) -> None:
        found.extend(index for index, _, _ in news)
        keep_all(self, news)

    monkeypatch.setattr(StoredCheckpoints, "keep_all", keep)
    return found


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of pictures, one of them cut off inside, and an empty cache folder."""
    monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path / "cache"))
    (tmp_path / "photos").mkdir()
    for number in range(NUM_PHOTOS):
        sampling = ("4:2:0", "4:4:4", "gray")[number % 3]
        data = encode(picture(300, 400, number), sampling)
        if number == 4:
            data = data[:-2000] + data[-2:]
        (tmp_path / "photos" / f"{number}.jpg").write_bytes(data)
    return tmp_path / "photos"


def epochs(dataset: IndexedDataset, count: int = 1, **options: bool) -> list[torch.Tensor]:
    """The pictures of some epochs, in the order of their indices, and which of them are bad."""
    loader = Loader(
        dataset,
        Recipe([RandomResizedCrop(32, scale=(0.05, 0.5))]),
        batch_size=3,
        device="cpu",
        dtype=torch.uint8,
        on_bad_sample="skip",
        max_bad_samples=NUM_PHOTOS,
        num_threads=2,
        **options,
    )
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


def test_a_run_begins_where_the_last_one_ended(photos: Path, kept: list[int]) -> None:
    """The same pictures and verdicts, and nothing is looked through again: not in a split, nor in a helper process."""
    dataset = open_dataset(photos)
    first, second = epochs(dataset, 2)
    assert sorted(kept) == list(range(NUM_PHOTOS))
    again = epochs(open_dataset(photos), 2)
    assert torch.equal(torch.stack(again), torch.stack([first, second]))
    epochs(dataset.split(0.5, 0.5)[1])
    [elsewhere] = epochs(dataset, helper_process=True)

    assert torch.equal(elsewhere, first)
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
    path = photos / "1.jpg"
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


def test_damage_makes_no_other_picture(photos: Path) -> None:
    """Wherever the kept file is flipped or cut off, before or while it is open."""
    [expected] = epochs(open_dataset(photos))
    path = cache_file(photos.parent)
    whole, rng = path.read_bytes(), random.Random(0)
    for turn in range(20):
        data = bytearray(whole)
        if turn % 4:
            for _ in range(1 + turn % 3):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        else:
            del data[rng.randrange(len(data)) :]
        path.write_bytes(data)
        assert torch.equal(epochs(open_dataset(photos))[0], expected)


def test_checkpoints_come_back_as_they_were_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that a run keeps and those that were indexed beforehand, and verdicts without any as well."""
    monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path / "cache"))
    (tmp_path / "photos").mkdir()
    for number, sampling in enumerate(("4:2:0", "4:4:4", "gray")):
        data = encode(picture(200, 300, number), sampling)
        (tmp_path / "photos" / f"{number}.jpg").write_bytes(data[: -300 * (number == 1) or None])
    dataset = open_dataset(tmp_path / "photos")
    images = [bytes(sample.image or b"") for sample in dataset]
    digests = [FINDER.digest(image) for image in images]
    expected = [find_checkpoints(image, 5) for image in images]
    store = StoredCheckpoints(dataset)
    store.keep_all(
        [(n, digests[n], Checkpoints(*expected[n][:1], 5, expected[n][1])) for n in (0, 1)]
    )

    numbers, told = np.arange(3), np.array(digests, np.uint64)
    known = StoredCheckpoints(dataset).look_up(numbers, told)
    assert known.files["status"][2] == UNREAD
    for mine, (verdict, rows) in zip(known.files[:2], expected[:2], strict=True):
        step, rest = divmod(int(mine["every"]), 5)
        assert (mine["status"], rest) == (verdict, 0)
        kept = ctypes.string_at(int(mine["address"]), CHECKPOINT.itemsize * int(mine["num_rows"]))
        assert kept == rows[step - 1 :: step].tobytes()
    index(str(tmp_path / "photos"), finder=FINDER, num_workers=1)
    assert (store.look_up(numbers, told).files["status"] == GOOD).tolist() == [True, False, True]


def test_where_files_cannot_be_written_the_process_remembers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """So the epochs of one run are as fast as ever; the next run finds everything anew, and one line says so."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path / "file"))
    (tmp_path / "photos").mkdir()
    image = encode(picture(200, 300), "4:2:0")
    (tmp_path / "photos" / "a.jpg").write_bytes(image)
    dataset = open_dataset(tmp_path / "photos")
    told = np.array([FINDER.digest(image)], np.uint64)
    store = StoredCheckpoints(dataset)
    for _ in range(2):
        store.keep_all([(0, int(told[0]), Checkpoints(GOOD, 8, find_checkpoints(image, 8)[1]))])

    [mine] = store.look_up(np.zeros(1, np.int64), told).files
    assert mine["num_rows"] > 1
    [other] = StoredCheckpoints(dataset).look_up(np.zeros(1, np.int64), told).files
    assert other["status"] == UNREAD
    assert len(caplog.records) == 1
