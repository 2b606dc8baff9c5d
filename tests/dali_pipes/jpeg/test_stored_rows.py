"""What compiled code reads of files of checkpoints is what `readers` reads of them, whatever happened to the files."""

import ctypes
import shutil
from pathlib import Path

import numpy as np
import pytest

from dali_pipes.jpeg import stored_checkpoints
from dali_pipes.jpeg.checkpoints import CHECKPOINT, UNREAD, Checkpoints, Known
from dali_pipes.jpeg.finder import FINDER
from dali_pipes.jpeg.status import CUT_SHORT, GOOD
from dali_pipes.jpeg.stored_checkpoints import StoredCheckpoints
from readers import open_dataset
from readers.checkpoints.layout import HEAD_BYTES, SLOT_BYTES
from readers.prepare import index, pack
from tests.support.jpegs import encode, picture
from tests.support.kept_checkpoints import kept_of

COUNT = 12
DIGESTS = np.arange(1, COUNT + 1, dtype=np.uint64) << np.uint64(50)
ALL = np.arange(COUNT)


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of pictures, and an empty cache folder."""
    monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path / "cache"))
    (tmp_path / "photos").mkdir()
    for number in range(COUNT):
        data = encode(picture(40 + 9 * number, 200, number), "4:2:0")
        (tmp_path / "photos" / f"{number:02}.jpg").write_bytes(data)
    return tmp_path / "photos"


def store_of(folder: Path) -> StoredCheckpoints:
    """Knows rows of 0 to 3,000 bytes of each picture, and of every fifth a bad verdict; these all are made up."""
    rng = np.random.default_rng(0)
    store = StoredCheckpoints(open_dataset(folder))
    entries = []
    for number in range(COUNT):
        rows = np.zeros(0 if number % 5 == 4 else 27 * number, CHECKPOINT)
        rows["bit"], rows["dc"] = rng.integers(0, 1 << 30, len(rows)), rng.integers(-999, 999, (len(rows), 3))  # fmt: skip
        entries.append((number, int(DIGESTS[number]), Checkpoints(CUT_SHORT if number % 5 == 4 else GOOD, 8, rows)))  # fmt: skip
    store.keep_all(entries)
    return store


def rows_of(known: Known) -> list[bytes | None]:
    """Status, distance and rows of each file."""
    found: list[bytes | None] = []
    for status, every, address, num_rows in known.files.tolist():
        rows = ctypes.string_at(address, 10 * num_rows)
        found.append(None if status == UNREAD else f"{status} {every} ".encode() + rows)
    return found


def expected_of(store: StoredCheckpoints, indices: np.ndarray, digests: np.ndarray) -> list[bytes | None]:  # fmt: skip
    """The same, of files as Python reads them."""
    found = [
        None if one is None else f"{one.status} {one.every} ".encode() + one.rows
        for one in kept_of(store._kept, indices, digests)
    ]
    others = rows_of(store._memory.look_up(indices, digests))
    return [mine or other for mine, other in zip(found, others, strict=True)]


@pytest.mark.parametrize("usual_bytes", [0, 1500])
def test_rows_are_those_that_were_kept(
    usual_bytes: int, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In any indices and more than once, of other bytes none, and with too little room at first."""
    monkeypatch.setattr(stored_checkpoints, "_USUAL_BYTES", usual_bytes)
    store = store_of(photos)
    indices = np.array([7, 3, 3, 0, 11, 4, 9, 1])
    digests = DIGESTS[indices].copy()
    digests[6] += np.uint64(1)
    found = rows_of(store.look_up(indices, digests))

    assert found == expected_of(store, indices, digests)
    assert [one is None for one in found] == [False] * 6 + [True, False]
    assert sum(len(one or b"") for one in found) > 5000


def test_damage_is_as_good_as_nothing(photos: Path, tmp_path: Path) -> None:
    """Any byte of the slots and the rows may change, or be cut off, and `readers` says the same."""
    store_of(photos)
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
        store = StoredCheckpoints(open_dataset(photos))
        found = rows_of(store.look_up(ALL, DIGESTS))
        assert found == expected_of(store, ALL, DIGESTS)
        lost += found.count(None)
    assert lost > 60


def test_slots_of_another_dataset_and_of_other_samples_are_unknown(photos: Path, tmp_path: Path) -> None:  # fmt: skip
    """A slot counts in its own place of its own file."""
    store = store_of(photos)
    [path] = (tmp_path / "cache" / "checkpoints").iterdir()
    data = bytearray(path.read_bytes())
    first, second = HEAD_BYTES, HEAD_BYTES + SLOT_BYTES
    data[second : second + SLOT_BYTES] = data[first : first + SLOT_BYTES]
    path.write_bytes(data)

    found = rows_of(store.look_up(ALL, DIGESTS[[0, 0, *range(2, COUNT)]]))
    assert [one is None for one in found[:3]] == [False, True, False]


def test_shards_are_looked_at_beside_them_and_in_the_cache_folder(photos: Path, tmp_path: Path) -> None:  # fmt: skip
    """What is not known beside a shard may be known in the cache folder; a split and a mixture find the same."""
    pack(str(photos), str(tmp_path / "shards"), shuffle=0, shard_size="20KB")
    index(str(tmp_path / "shards"), finder=FINDER, num_workers=1)
    dataset = open_dataset(str(tmp_path / "shards"))
    images = [bytes(sample.image or b"") for sample in dataset]
    digests = np.array([FINDER.digest(image) for image in images], np.uint64)
    beside = sorted((tmp_path / "shards").glob("*.gpuaug-checkpoints"))
    assert len(beside) > 1
    shutil.copy(beside[0], beside[1])  # which is of another shard: as if there were none
    store = StoredCheckpoints(dataset)
    found = rows_of(store.look_up(ALL, digests))
    assert found == expected_of(store, ALL, digests)
    assert 0 < found.count(None) < COUNT
    missing = [number for number in range(COUNT) if found[number] is None]
    store.keep_all([(number, int(digests[number]), Checkpoints(GOOD, 8, np.zeros(3, CHECKPOINT))) for number in missing])  # fmt: skip

    found = rows_of(store.look_up(ALL, digests))
    assert found == expected_of(store, ALL, digests)
    assert None not in found
    beside[0].unlink()
    assert rows_of(store.look_up(ALL, digests)) == found  # its descriptor is open


def test_where_files_cannot_be_written_memory_is_asked(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the process remembers stands beside what the files say."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path / "file"))
    store = store_of(photos)
    found = rows_of(store.look_up(ALL, DIGESTS))
    assert found == expected_of(store, ALL, DIGESTS)
    assert None not in found
