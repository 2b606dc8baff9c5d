"""`index` with a finder, and `pack`: the seek points of all images, with the same bytes for every executor."""

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from dali_pipes.jpeg.seek_points import FINDER as FOUND_BY_US
from readers import open_dataset
from readers.jpeg_seek_points.layout import Entry
from readers.jpeg_seek_points.store import DatasetSeekPoints
from readers.prepare import ArrayTask, Executor, LocalExecutor, PrepareError, index, pack
from readers.prepare.seek_points import SeekPointCounts
from tests.support.commands import Run
from tests.support.damage import flip
from tests.support.executors import Backwards
from tests.support.first_bytes import FirstBytes
from tests.support.stored_seek_points import read_stored

FINDER = FirstBytes()
NUM_IMAGES = 24
KILLED = """
import os, signal, sys
from readers.jpeg_seek_points import seek_point_file
from readers.prepare import index
from tests.support.damage import flip
from tests.support.first_bytes import FirstBytes
write, count = seek_point_file.write_all, 0
def writing(descriptor, data, offset):
    global count
    count += 1
    if count == int(sys.argv[2]):
        write(descriptor, data[: len(data) // 2], offset)
        os.kill(os.getpid(), signal.SIGKILL)
    write(descriptor, data, offset)
seek_point_file.write_all = writing
index(sys.argv[1], finder=FirstBytes(), num_workers=1)
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def found_of(path: Path, executor: Executor | None = None, **options: bool) -> SeekPointCounts:
    """Return what `index` says about seek points."""
    executor = executor or LocalExecutor(1)
    found = index(str(path), finder=FINDER, executor=executor, **options).seek_points  # type: ignore[arg-type]
    assert found is not None
    return found


def files_of(*folders: Path) -> dict[str, bytes]:
    """Return the contents of all files of seek points, by name."""
    paths = [path for folder in folders for path in folder.rglob("*.gpuaug-checkpoints")]
    return {path.name: path.read_bytes() for path in paths}


def remove_all(*folders: Path) -> None:
    for folder in folders:
        for path in folder.rglob("*.gpuaug-checkpoints"):
            path.unlink()


def all_known(path: Path) -> bool:
    """Whether a store finds of every image what was found in it."""
    dataset = open_dataset(path)
    images = [bytes(sample.image or b"") for sample in dataset]
    found = read_stored(
        DatasetSeekPoints(dataset, 1), range(len(images)), [*map(FINDER.digest, images)]
    )
    return [kept and kept.rows for kept in found] == [image[:100] for image in images]


def test_a_folder_is_looked_through_once(source: Path, cache: Path) -> None:
    """Into the file of the cache folder that loaders read; a second run finds all there."""
    found = found_of(source)
    [path] = found.paths
    again = FirstBytes()
    index(str(source), finder=again, num_workers=1)

    assert (found.found, found.none.total(), found.lacking) == (NUM_IMAGES, 0, 0)
    assert Path(path).parent == cache / "checkpoints"
    assert (Path(path).stat().st_size, again.looked_at) == (found.num_bytes, [])
    assert all_known(source)


def test_what_has_none_is_counted_by_reason(source: Path) -> None:
    """And what cannot be read is no image."""
    Image.new("RGB", (9, 8)).save(source / "cats" / "a.png")
    (source / "owls" / "0.jpg").unlink()
    (source / "owls" / "0.jpg").symlink_to("nowhere")
    found = found_of(source)

    assert found.found == NUM_IMAGES - 1
    assert found.none == {"not a JPEG (3)": 1, "no image, or it cannot be read": 1}


@pytest.mark.parametrize("kind", ["folder", "tar", pytest.param("parquet", marks=pytest.mark.long)])
def test_whoever_finds_them_the_bytes_are_the_same(kind: str, source: Path, cache: Path) -> None:
    """One process, several, one that does all in the wrong order and twice, and tasks that nothing connects."""
    data, places = source, (cache,)
    if kind != "folder":
        data = source.parent / "shards"
        pack(str(source), data, format=kind, shard_size="15kB")  # type: ignore[arg-type]
        places = (data,)
    found_of(data)
    expected = files_of(*places)
    assert len(expected) > (kind != "folder")
    assert all_known(data)
    for executor in (LocalExecutor(2), Backwards()):
        remove_all(*places)
        found_of(data, executor)
        assert files_of(*places) == expected

    remove_all(*places)
    for number in (2, 0):
        found_of(data, ArrayTask(number, 3, Backwards()))
    if kind != "folder":  # a folder of so few files is one task
        assert found_of(data, ArrayTask(0, 3, LocalExecutor(1))).lacking > 0
        with pytest.raises(
            PrepareError, match=r"\d+ of 24 samples have not been looked through: run"
        ):
            found_of(data, merge=True)
    found_of(data, ArrayTask(1, 3, LocalExecutor(1)))
    assert (found_of(data, merge=True).found, files_of(*places)) == (NUM_IMAGES, expected)


def test_what_loaders_kept_before_is_put_in_order(source: Path, cache: Path) -> None:
    """The file is the same as if nobody had used it before, and what it knows is not found again."""
    found_of(source)
    expected = files_of(cache)
    remove_all(cache)
    dataset, store = open_dataset(source), DatasetSeekPoints(open_dataset(source), 1)
    for number in (17, 3, 3, 9):
        image = dataset[number].image or b""
        store.store([Entry(number, FINDER.digest(image), FINDER.find(image))])
    assert files_of(cache) != expected
    finder = FirstBytes()
    index(str(source), finder=finder, num_workers=1)

    assert (files_of(cache), len(finder.looked_at)) == (expected, NUM_IMAGES - 3)


@pytest.mark.parametrize(
    "most", [7, *(pytest.param(most, marks=pytest.mark.long) for most in (1, 2, 30))]
)
def test_killed_and_begun_again(most: int, source: Path, cache: Path) -> None:
    """In the middle of writing a row or a slot: the next run ends with the same bytes."""
    found_of(source)
    expected = files_of(cache)
    remove_all(cache)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(source), str(most)], check=False)
    found_of(source)

    assert (killed.returncode, files_of(cache)) == (-signal.SIGKILL, expected)


def test_damage_beside_a_shard_is_mended(source: Path, tmp_path: Path) -> None:
    """Also where the file is of another shard, was cut off, or is older than its shard."""
    data = tmp_path / "shards"
    pack(str(source), data, shard_size="15kB")
    found_of(data)
    expected = files_of(data)
    first, second, third, fourth = sorted(data.glob("*.gpuaug-checkpoints"))[:4]
    flip(first, -1, 1)
    second.write_bytes(third.read_bytes())
    os.truncate(third, 200)
    os.utime(fourth, (0, 0))
    finder = FirstBytes()
    index(str(data), finder=finder, num_workers=1)

    assert files_of(data) == expected
    redone = [
        path.name.removesuffix(".gpuaug-checkpoints") for path in (first, second, third, fourth)
    ]
    assert len(finder.looked_at) == sum(len(open_dataset(data / name)) for name in redone)
    assert fourth.stat().st_mtime > 0


@pytest.mark.parametrize("format", ["tar", "parquet"])
@pytest.mark.parametrize("kind", ["plan", "elsewhere", "stream"])
def test_pack_writes_what_index_would(kind: str, format: str, source: Path, tmp_path: Path) -> None:
    """Beside every shard, whoever packs it and from whatever."""
    taken: Path | str = source
    executor: Executor | None = Backwards() if kind == "elsewhere" else None
    options = {"source_format": "stream"} if kind == "stream" else {}
    if kind == "stream":
        pack(str(source), tmp_path / "plain")
        taken = tmp_path / "plain" / "shard-000000.tar"
    data = tmp_path / "shards"
    settings = {"format": format, "shard_size": "15kB", "num_workers": 1, **options}
    pack(str(taken), data, finder=FINDER, executor=executor, **settings)  # type: ignore[arg-type]
    packed = files_of(data)
    finder = FirstBytes()
    index(str(data), finder=finder, num_workers=1)
    assert finder.looked_at == []
    remove_all(data)
    found_of(data)

    assert len(packed) > 1
    assert files_of(data) == packed
    assert all_known(data)


def test_a_folder_that_cannot_be_written_beside_has_its_own_in_the_cache(
    source: Path, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As shards on a read-only disk."""
    data = tmp_path / "shards"
    pack(str(source), data, shard_size="15kB")
    monkeypatch.setattr("readers.prepare.seek_points.os.access", lambda *_: False)
    found = found_of(data)

    assert files_of(data) == {}
    assert found.paths == [str(path) for path in (cache / "checkpoints").iterdir()]
    assert all_known(data)


def test_the_command_line_says_what_it_found(
    source: Path, run: Run, jpeg: Callable[..., bytes], tmp_path: Path
) -> None:
    """By our own decoder: how many have checkpoints, and why others have none."""
    Image.new("RGB", (9, 8)).save(source / "cats" / "a.png")
    Image.new("RGB", (40, 40)).save(source / "cats" / "b.jpg", progressive=True)
    (source / "dogs" / "large.jpg").write_bytes(jpeg(400, 500))
    (source / "cats" / "c.jpg").write_bytes(jpeg(60, 90)[:-400])
    inside = jpeg(60, 90)
    (source / "dogs" / "inside.jpg").write_bytes(inside[:-400] + inside[-2:])
    code, printed, _ = run("index", source, "--seek-points", "--workers", "1")
    printed = " ".join(printed.split())

    assert code == 0
    assert pickle.loads(pickle.dumps(FOUND_BY_US)).version == FOUND_BY_US.version  # as for workers
    for words in (
        "seek points: of 25 of 29 images",
        "1 have none: sound, but progressive, or too small",
        "2 have none: does not begin and end like a JPEG, such as",
        "cats/a.png",
        "such as dogs/inside.jpg Damaged ones are decoded by OpenCV",
    ):
        assert words in printed

    _, inspected, _ = run("inspect", source)
    assert "29 of 29 samples were looked through" in " ".join(inspected.split())
    assert run("pack", source, tmp_path / "packed")[0] == 0
    assert [path.suffix for path in sorted((tmp_path / "packed").glob("shard*"))] == [
        ".tar",
        ".gpuaug-checkpoints",
        ".gpuaug-index",
    ]
