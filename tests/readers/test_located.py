"""Where images lie: what is read there must be the samples that `fetch` returns."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from readers import Dataset, FolderDataset, ListDataset, Sample, open_dataset
from readers.formats.path_table import PathTableDataset
from readers.located import Located


def nothing(name: str) -> bool:
    return not name


def image(number: int) -> bytes:
    return b"\xff\xd8" + bytes([number % 251]) * (100 + number)


def read(located: Located, row: int) -> bytes:
    """Read an image as compiled code does; empty where it cannot be opened."""
    number, start, length = (
        int(of_all[row]) for of_all in (located.files, located.starts, located.lengths)
    )
    if not located.paths:
        return read_some(number, length, start)
    begin = int(located.path_starts[number])
    path = located.paths[begin : located.paths.index(0, begin)]
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return read_some(descriptor, length if length >= 0 else 1 << 20, start)
    finally:
        os.close(descriptor)


def read_some(descriptor: int, length: int, start: int) -> bytes:
    try:
        return os.pread(descriptor, length, start)
    except OSError:  # a pipe
        return b""


def check(
    dataset: Dataset, indices: list[int], reads: Callable[[str], bool] = nothing
) -> list[bool]:
    """Compare what is located with what is fetched; returns which rows are located."""
    located = dataset.locate(np.array(indices, np.int64), reads)  # type: ignore[attr-defined]
    assert located is not None
    fetched = dataset.fetch(indices)
    assert len(located) == len(indices)
    for row, entry in enumerate(fetched):
        assert located.make_key(row) == entry.key
        if not located.is_located[row]:
            assert located.files[row] == -1
            continue
        data = read(located, row)
        if not isinstance(entry, Sample):
            assert len(data) < max(1, located.lengths[row]), "a bad sample must not be readable"
            continue
        made = located.make_sample(row, data)
        assert made == entry
        assert type(made.index) is int
        assert type(made.label) is int
        assert list(made.fields) == list(entry.fields)
        assert data == entry.image
        assert located.labels[row] == entry.label
        assert tuple(located.sizes[row].tolist()) == (entry.size or (0, 0))
        restarts = None if located.restarts is None else located.restarts[row]
        for one in (restarts, made.restarts):
            assert (one is None) == (entry.restarts is None)
            assert one is None or np.array_equal(one, entry.restarts)
    return located.is_located.tolist()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two classes of six images, of which the fifth has a caption beside it."""
    for number in range(12):
        path = tmp_path / "photos" / "ab"[number % 2] / f"{number:02}\udcff ä.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(image(number))
    beside = sorted((tmp_path / "photos/b").iterdir())[2]
    beside.with_suffix(".json").write_text("{}")
    return tmp_path / "photos"


ROWS = [11, 0, 3, 3, 7, 8, 1]


def test_folder(folder: Path) -> None:
    photos = FolderDataset(folder)
    assert check(photos, ROWS) == [True, True, True, True, True, False, True]
    assert check(photos, []) == []
    (folder / photos.keys()[3]).unlink()
    (folder / photos.keys()[0]).unlink()
    os.mkfifo(folder / photos.keys()[0])
    (folder / photos.keys()[7]).write_bytes(b"")
    check(photos, ROWS)
    with pytest.raises(IndexError):
        photos.locate(np.array([-1]), nothing)


def test_names_that_no_file_has(folder: Path) -> None:
    names = ["a\0b.jpg", "\ud800.jpg", *sorted(map(str, folder.rglob("*.jpg"))), "nowhere.jpg"]
    photos = ListDataset(names)
    assert check(photos, [0, 1, 2, 3, 14]) == [False, False, True, True, True]


def test_table(folder: Path) -> None:
    names = sorted(path.name for path in folder.glob("a/*.jpg"))
    for number, name in enumerate(names):
        (folder / "a" / name).rename(folder / "a" / f"{number}.jpg")
    rows = [f"a/{number}.jpg,{'xy'[number % 2]},hello {number}" for number in range(6)]
    table = folder / "table.csv"
    table.write_text("\n".join(["path,label,caption", *rows]))
    photos = PathTableDataset(table)
    assert all(check(photos, [5, 0, 0, 3]))
    assert photos.locate(np.array([0]), lambda name: name == "caption") is None
    assert all(check(photos, [1], lambda name: name == "other"))
    vectors = PathTableDataset(table, multi_label=True)
    assert vectors.locate(np.array([0]), nothing) is None


def test_who_replaces_reading_is_fetched(folder: Path) -> None:
    class Doubled(FolderDataset):
        def fetch(self, indices: object) -> list[object]:  # type: ignore[override]
            return [one for one in super().fetch(indices) for _ in range(2)]  # type: ignore[arg-type]

    class Other(FolderDataset):
        """Replaces nothing that is read."""

    assert Doubled(folder).locate(np.array([0]), nothing) is None
    assert Other(folder).locate(np.array([0]), nothing) is not None


def test_videos_are_not_located(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_bytes(bytes(100))
    videos = open_dataset(tmp_path)
    assert videos.locate(np.array([0]), nothing) is None
