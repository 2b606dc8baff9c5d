"""The seek points of a dataset's samples: found through selections, stored in the cache folder, never of other bytes."""

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from readers import IndexedDataset, mix, open_dataset
from readers.formats.files import FileDataset
from readers.jpeg_seek_points.layout import Entry, PackedSeekPoints
from readers.jpeg_seek_points.locations import cache_path, make_head, make_room
from readers.jpeg_seek_points.store import DatasetSeekPoints
from readers.prepare import index, pack
from tests.support.damage import flip, overwrite
from tests.support.first_bytes import FirstBytes
from tests.support.small import SmallDataset
from tests.support.stored_seek_points import read_stored

MakeJpeg = Callable[..., bytes]
FINDER = FirstBytes()


def digests_of(dataset: IndexedDataset) -> list[int]:
    return [FINDER.digest(sample.image or b"") for sample in dataset]


def rows_of(dataset: IndexedDataset, store: DatasetSeekPoints | None = None) -> list[bytes | None]:
    """What a new store, or this one, knows of every sample."""
    store = store or DatasetSeekPoints(dataset, 1)
    found = read_stored(store, range(len(dataset)), digests_of(dataset))
    return [kept and kept.rows for kept in found]


def keep_numbers(dataset: IndexedDataset, store: DatasetSeekPoints, numbers: list[int]) -> None:
    """Keep of some samples what says which they are."""
    digests = digests_of(dataset)
    store.store([Entry(n, digests[n], PackedSeekPoints(0, 8, b"row %d" % n)) for n in numbers])


@pytest.fixture
def photos(tmp_path: Path, jpeg: MakeJpeg, monkeypatch: pytest.MonkeyPatch) -> IndexedDataset:
    """A folder of ten pictures, and an empty cache folder."""
    monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path / "cache"))
    for number in range(10):
        path = tmp_path / "photos" / "ab"[number % 2] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(20, 30, seed=number))
    return open_dataset(tmp_path / "photos")


def test_what_one_run_keeps_the_next_one_finds(photos: IndexedDataset) -> None:
    """Of those samples that were kept, and no others; two versions of the rows have files of their own."""
    keep_numbers(photos, DatasetSeekPoints(photos, 1), [3, 7])
    keep_numbers(photos, DatasetSeekPoints(photos, 2), [2])

    expected = [b"row %d" % n if n in (3, 7) else None for n in range(10)]
    assert rows_of(photos) == expected
    assert rows_of(photos, DatasetSeekPoints(photos, 2))[2:4] == [b"row 2", None]


def test_selections_and_mixtures_share_what_they_are_made_of(
    photos: IndexedDataset, tmp_path: Path
) -> None:
    """Who splits, selects, balances, relabels or mixes a dataset finds what was kept of the whole."""
    other = open_dataset(tmp_path / "photos" / "a")
    both = mix([other, photos.take(range(1, 10))])
    part = photos.split(0.5, 0.5, seed=3)[1].where("label == 1")
    views = [part, both, photos.balanced(), photos.with_labels([0] * 10)]
    keep_numbers(both, DatasetSeekPoints(both, 1), [0, 5, 6, 7])
    keep_numbers(part, DatasetSeekPoints(part, 1), [0])

    expected = dict(zip(digests_of(both), rows_of(both), strict=True))
    expected |= dict(zip(digests_of(part)[:1], rows_of(part)[:1], strict=True))
    del expected[digests_of(other)[0]]
    assert sum(row is not None for row in expected.values()) == 4
    for view in (photos, *views[:1], *views[2:]):
        assert rows_of(view) == [expected.get(digest) for digest in digests_of(view)]


def test_what_is_known_is_counted_without_a_look_at_images(photos: IndexedDataset) -> None:
    """Of a selection that of its own samples."""
    keep_numbers(photos, DatasetSeekPoints(photos, 1), [3, 4, 7])

    counts = [DatasetSeekPoints(one, 1).count_known() for one in (photos, photos.take(range(4, 9)))]
    assert counts == [3, 2]


@pytest.mark.parametrize("longer", [b"", b"more"])
def test_a_changed_file_is_noticed(longer: bytes, photos: IndexedDataset, tmp_path: Path) -> None:
    """Also where its name, size and time of change are as they were; of all others what is known stays known."""
    store = DatasetSeekPoints(photos, 1)
    keep_numbers(photos, store, list(range(10)))
    path = tmp_path / "photos" / "a" / "4.jpg"
    before = path.stat()
    flip(path, -5).write_bytes(path.read_bytes() + longer)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    photos = open_dataset(tmp_path / "photos")
    place = photos.keys().index("a/4.jpg")
    assert [row is None for row in rows_of(photos)] == [n == place for n in range(10)]
    keep_numbers(photos, store, [place])
    assert None not in rows_of(photos)


def test_a_file_of_another_dataset_is_not_believed(photos: IndexedDataset, tmp_path: Path) -> None:
    """Copied under the name of this one's, or damaged in its head: it is made anew."""
    shutil.copytree(tmp_path / "photos", tmp_path / "other")
    (tmp_path / "other" / "a" / "0.jpg").rename(tmp_path / "other" / "a" / "00.jpg")
    other = open_dataset(tmp_path / "other")
    keep_numbers(other, DatasetSeekPoints(other, 1), [0, 1])
    path, others = cache_path(make_head(photos, 1)), cache_path(make_head(other, 1))
    path.write_bytes(others.read_bytes())

    assert path != others
    assert (digests_of(photos), rows_of(photos)) == (digests_of(other), [None] * 10)
    keep_numbers(photos, DatasetSeekPoints(photos, 1), [1])
    assert rows_of(photos)[1] == b"row 1"
    overwrite(path, 0, b"?")
    assert rows_of(photos) == [None] * 10


def test_the_file_of_a_folder_is_found_without_a_look_at_its_files() -> None:
    """By where it lies and what they are called: a value that must stay the same, or nobody finds what was kept."""
    names = [["a/0.jpg", "b/1.jpg"], ["a/0.jpg", "b/2.jpg"], ["a/0.jpg"]]
    folders = [FileDataset(Path("/data"), one, [0] * len(one)) for one in names]
    folders += [FileDataset(Path("/other"), names[0], [0, 0])]

    assert folders[0].cache_identity == "dd30a7db82a797fb5192179033ffbabd"
    assert FileDataset(Path("/data"), names[0], [1, 2]).cache_identity == folders[0].cache_identity
    assert len({one.cache_identity for one in folders}) == 4


def test_a_file_that_was_removed_is_made_again(photos: IndexedDataset) -> None:
    """As `gpu-aug cache --remove checkpoints` does while a run goes on."""
    store = DatasetSeekPoints(photos, 1)
    keep_numbers(photos, store, [1])
    cache_path(make_head(photos, 1)).unlink()
    keep_numbers(photos, store, [2])

    assert rows_of(photos)[1:3] == [None, b"row 2"]


@pytest.mark.parametrize("place", ["read-only", "full"])
def test_where_nothing_can_be_kept_it_is_said_once(
    place: str,
    photos: IndexedDataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The run goes on; what was there stays, and who asks is told that nothing more is kept."""
    (tmp_path / "file").touch()
    if place == "read-only":  # of a folder without rights, root would not be refused
        monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path / "file"))
    store = DatasetSeekPoints(photos, 1, limit_bytes=128 + 10 * 32 + 5)
    with caplog.at_level(logging.WARNING):
        for number in range(3):
            keep_numbers(photos, store, [number])

    assert not store.is_writable
    assert rows_of(photos) == [b"row 0" if place == "full" and n == 0 else None for n in range(10)]
    [told] = [record.getMessage() for record in caplog.records]
    assert ("set GPU_AUG_CACHE to a folder that can be written" in told) == (place == "read-only")
    assert ("reached its largest size" in told) == (place == "full")


def test_datasets_that_are_no_longer_used_make_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that were not used for longest, and no more than leaves a quarter of what all may take together."""
    usage = shutil.disk_usage(tmp_path)._replace(free=90_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    for age, name in enumerate("abcde"):
        path = tmp_path / f"{name}.gpuaug-checkpoints"
        path.write_bytes(bytes(2000))
        os.utime(path, (1000 - age, 1000 - age))
    (tmp_path / "notes.txt").write_bytes(bytes(2000))

    assert make_room(tmp_path / "a.gpuaug-checkpoints") == 4000
    assert sorted(path.name[0] for path in tmp_path.iterdir()) == ["a", "b", "c", "d", "n"]


@pytest.mark.usefixtures("photos")
def test_what_lies_beside_a_shard_comes_first(tmp_path: Path) -> None:
    """A dataset of some of the shards finds it as well; where it is damaged the cache folder has the word."""
    shards = tmp_path / "shards"
    pack(str(tmp_path / "photos"), shards, shard_size="20kB")
    index(str(shards), finder=FINDER, num_workers=1)
    paths = sorted(shards.glob("*.tar"))
    dataset = open_dataset(shards)
    firsts = [bytes(sample.image or b"")[:100] for sample in dataset]
    assert len(paths) > 2
    assert rows_of(dataset) == firsts
    assert (
        rows_of(open_dataset([str(paths[1])]))
        == firsts[len(open_dataset([str(paths[0])])) :][: len(open_dataset([str(paths[1])]))]
    )

    flip(shards / f"{paths[0].name}.gpuaug-checkpoints", -50, 4)  # in the rows of its last sample
    last = len(open_dataset([str(paths[0])])) - 1
    store = DatasetSeekPoints(dataset, 1)
    assert np.flatnonzero([row is None for row in rows_of(dataset, store)]).tolist() == [last]
    keep_numbers(dataset, store, [last])
    assert rows_of(dataset)[last] == b"row %d" % last


@pytest.mark.usefixtures("photos")
def test_seek_points_of_another_shard_are_not_used(tmp_path: Path) -> None:
    """A shard that was written anew under its name has no use for what lies beside it."""
    for name, taken in (("one", "photos"), ("other", "photos/a")):
        pack(str(tmp_path / taken), tmp_path / name)
        index(str(tmp_path / name), finder=FINDER, num_workers=1)
    beside = "shard-000000.tar.gpuaug-checkpoints"
    (tmp_path / "one" / beside).write_bytes((tmp_path / "other" / beside).read_bytes())

    assert rows_of(open_dataset(tmp_path / "one")) == [None] * 10
    assert None not in rows_of(open_dataset(tmp_path / "other"))


def test_a_dataset_with_any_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It need not be hex digits."""
    monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path))
    own, kept = (
        SmallDataset([b""] * 3, [0] * 3, name="cats and dogs, second version"),
        PackedSeekPoints(0, 8, b"rows"),
    )
    store = DatasetSeekPoints(own, 1)
    store.store([Entry(1, 7, kept)])

    assert store.is_writable
    assert read_stored(DatasetSeekPoints(own, 1), [0, 1, 2], [7, 7, 7]) == [None, kept, None]
