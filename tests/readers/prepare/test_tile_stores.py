"""`tile` from and to object stores makes the copies that it makes here, and goes on after a kill."""

import os
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("obstore")
pytest.importorskip("moto")
pytest.importorskip("flask")

from dali_pipes.jpeg.tiling.add_restarts import tile_jpeg
from readers import SourceError, TarDataset, open_dataset
from readers.prepare import PrepareError, tile, tile_plan
from readers.prepare.executor import ArrayTask, Executor, LocalExecutor
from readers.storage.destination import open_destination
from readers.storage.remote import StorageOptions, Url
from tests.support.commands import Run
from tests.support.executors import Backwards
from tests.support.packed import Jpeg
from tests.support.remote_data import set_up
from tests.support.s3_server import ROOT, Storage, storage


@pytest.fixture(scope="module")
def running() -> Iterator[Storage]:
    with storage("moto") as server:
        server.put("data")
        yield server


@pytest.fixture
def s3(running: Storage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Storage]:
    """S3 with a bucket, which after the test fails no more."""
    set_up(monkeypatch, tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL", running.url)
    monkeypatch.setattr(tile_plan, "_MOST_FILES", 2)
    running.count()
    yield running
    running.faults()


@pytest.fixture
def files(tmp_path: Path, jpeg: Jpeg) -> Path:
    """Seven files in three folders, and two shards: six groups."""
    folder = tmp_path / "files"
    for number in range(6):
        data = jpeg(120, 160, seed=number)[: 3000 if number == 4 else None]
        path = folder / ("cats", "dogs/small")[number % 2] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (folder / "a ü%#.csv").write_text("0,cat\n")
    for name in ("a", "b"):
        with tarfile.open(folder / f"{name}.tar", "w") as archive:
            archive.add(folder / "cats" / "0.jpg", "0.jpg")
            archive.add(folder / "cats" / "4.jpg", "4.jpg")
    return folder


def at(server: Storage, tmp_path: Path, name: str) -> Url:
    """A place of a test in the bucket."""
    options = StorageOptions(endpoint=server.url, cache_bytes=0, retries=2, timeout_seconds=20.0)
    return Url(f"s3://data/{tmp_path.name}/{name}", options)


def put(place: Url, folder: Path) -> Url:
    destination = open_destination(place)
    for name, data in content(folder).items():
        with destination.create(name) as file:
            file.write(data)
    return place


def content(place: Path | Url) -> dict[str, bytes]:
    """All files but notes; of indexes, which hold times, their names."""
    destination = open_destination(place)
    return {
        name: b"" if name.endswith(".gpuaug-index") else destination.read(name) or b""
        for name in sorted(destination.names())
        if not name.startswith(".gpuaug-plan/")
    }


PROCESSES = pytest.param(LocalExecutor(2), id="processes", marks=pytest.mark.long)


@pytest.mark.parametrize("executor", [None, PROCESSES])
@pytest.mark.parametrize("way", ["up", "down", "across"])
def test_copies_have_the_bytes_of_copies_here(
    s3: Storage, files: Path, tmp_path: Path, way: str, executor: Executor | None
) -> None:
    """Whoever makes them, to a store, from one, and from one to one; a second run keeps them."""
    expected = tile(str(files), tmp_path / "here", tile_jpeg, num_workers=2)
    source = str(files) if way == "up" else put(at(s3, tmp_path, "in"), files)
    out = tmp_path / "out" if way == "down" else at(s3, tmp_path, "out")

    tiled = tile(source, out, tile_jpeg, num_workers=2, executor=executor)
    again = tile(source, out, tile_jpeg, num_workers=2, executor=executor)

    assert content(out) == content(tmp_path / "here")
    assert tiled == expected
    assert (again.kept, again.jpegs.tiled, again.copied) == (9, 0, 0)
    assert (again.bytes, again.source_bytes) == (tiled.bytes, tiled.source_bytes)


@pytest.mark.parametrize("pattern", ["{a,b}.tar", "*.tar", "a.tar"])
def test_shards_by_a_pattern(s3: Storage, files: Path, tmp_path: Path, pattern: str) -> None:
    """They get their indexes beside them, with which a reader finds all samples without a scan."""
    source, out = put(at(s3, tmp_path, "in"), files), at(s3, tmp_path, "out")
    tiled = tile(Url(f"{source}/{pattern}", source.options), out, tile_jpeg)
    here = pattern.replace("*", "{a,b}")
    tile(str(files / here), tmp_path / "here", tile_jpeg)

    names = ["a.tar"] if pattern == "a.tar" else ["a.tar", "b.tar"]
    assert content(out) == content(tmp_path / "here")
    assert tiled.copied == len(names)
    assert [name for name in content(out) if name.endswith(".tar")] == names
    dataset = open_dataset(f"{out}/*.tar", endpoint=s3.url)
    assert isinstance(dataset, TarDataset)
    assert len(dataset) == 2 * len(names)


def test_an_array_job(s3: Storage, files: Path, tmp_path: Path, run: Run) -> None:
    """Says what is missing, what has changed, and then that all is there, with the counts of one process."""
    source, out = put(at(s3, tmp_path, "in"), files), at(s3, tmp_path, "out")
    options = ("tile", source, out, "--workers", "1")
    early = run(*options, "--merge")
    run(*options, "--task", "0/2")
    half = run(*options, "--merge")
    run(*options, "--task", "1/2")
    open_destination(out).remove("b.tar")
    lost = run(*options, "--merge")
    run(*options, "--task", "1/2")
    with open_destination(source).create("cats/0.jpg") as file:
        file.write((files / "cats" / "2.jpg").read_bytes())
    changed = run(*options, "--merge")
    with open_destination(source).create("cats/0.jpg") as file:
        file.write((files / "cats" / "0.jpg").read_bytes())
    merged = run(*options, "--merge")

    assert [one[0] for one in (early, half, lost, changed, merged)] == [2, 2, 2, 2, 0]
    for (_, _, error), words in (
        (early, "holds no plan of tasks"),
        (half, "3 of 6 groups of files are not in"),
        (lost, "1 of 6 groups of files are not in"),
        (lost, "with b.tar"),
        (changed, "the source has changed since its tasks began"),
    ):
        assert words in " ".join(error.split())
    tile(str(files), tmp_path / "here", tile_jpeg)
    assert content(out) == content(tmp_path / "here")
    assert not open_destination(out).size_bytes(".gpuaug-plan/tiling.plan")
    assert "tiled: 7; left as they were: 3" in merged[1]


@pytest.mark.parametrize("end", ["", "/"])
def test_a_prefix_that_is_half_tiled_is_not_opened(
    s3: Storage, files: Path, tmp_path: Path, end: str
) -> None:
    """However its URL ends; the whole is opened."""
    for folder in ("cats", "dogs"):
        shutil.rmtree(files / folder)
    (files / "a ü%#.csv").unlink()
    out = at(s3, tmp_path, "out")
    given = at(s3, tmp_path, f"out{end}")
    tile(str(files), out, tile_jpeg, executor=ArrayTask(0, 2, LocalExecutor(1)))
    with pytest.raises(SourceError, match="was not tiled to its end: run the same gpu-aug tile"):
        open_dataset(given)

    tile(str(files), out, tile_jpeg, executor=ArrayTask(1, 2, LocalExecutor(1)))
    tile(str(files), out, tile_jpeg, merge=True)
    assert len(open_dataset(given)) == 4


def test_what_has_changed_is_made_again(s3: Storage, files: Path, tmp_path: Path) -> None:
    """An object of another ETag, a file of another time, and a copy that is gone or of another size."""
    source, out = put(at(s3, tmp_path, "in"), files), at(s3, tmp_path, "out")
    tile(source, out, tile_jpeg)
    with open_destination(source).create("cats/0.jpg") as file:
        file.write((files / "cats" / "2.jpg").read_bytes())
    with open_destination(out).create("b.tar") as file:
        file.write(b"short")
    again = tile(source, out, tile_jpeg)
    shutil.copy(files / "cats" / "2.jpg", files / "cats" / "0.jpg")
    tile(str(files), tmp_path / "here", tile_jpeg)

    assert (again.kept, again.copied) == (6, 2)
    assert content(out) == content(tmp_path / "here")

    up = at(s3, tmp_path, "up")
    tile(str(files), up, tile_jpeg)
    os.utime(files / "a.tar", ns=(10**18, 10**18))
    assert tile(str(files), up, tile_jpeg).kept == 8


KILL = """
import os, signal, sys
from bench.cli import main
from readers.prepare import tile_plan
from readers.storage.destination.remote import RemoteDestination
tile_plan._MOST_FILES = 2
create, count = RemoteDestination.create, 0
def killing(self, name):
    global count
    count += 1
    if count == 9:
        os.kill(os.getpid(), signal.SIGKILL)
    return create(self, name)
RemoteDestination.create = killing
main(["tile", *sys.argv[1:], "--workers", "1"])
"""


@pytest.mark.long
def test_a_killed_run_is_taken_up(s3: Storage, files: Path, tmp_path: Path) -> None:
    """What it has finished is kept, and the rest is made."""
    source, out = put(at(s3, tmp_path, "in"), files), at(s3, tmp_path, "out")
    command = [sys.executable, "-c", KILL, source, out]
    killed = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=300)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    tile(str(files), tmp_path / "here", tile_jpeg)
    expected = content(tmp_path / "here")
    there = content(out)
    assert 0 < len(there) < len(expected)
    assert all(there[name] == expected[name] for name in there)

    again = tile(source, out, tile_jpeg, executor=LocalExecutor(1))

    assert 2 <= again.kept < 9
    assert content(out) == expected


def test_a_prefix_with_marked_folders(s3: Storage, tmp_path: Path) -> None:
    """The empty objects that mark them are no files, and empty objects are."""
    for name in ("cats/", "cats/empty.txt", "cats/note.txt", "dogs/"):
        s3.put(f"data/{tmp_path.name}/in/{name}", b"note" if "note" in name else b"")
    tiled = tile(at(s3, tmp_path, "in"), tmp_path / "out", tile_jpeg)

    assert (tiled.copied, tiled.lost) == (2, [])
    assert content(tmp_path / "out") == {"cats/empty.txt": b"", "cats/note.txt": b"note"}


@pytest.mark.long
def test_a_long_prefix(s3: Storage, tmp_path: Path) -> None:
    """Each of more objects than S3 lists at a time is copied once."""
    for number in range(2100):
        s3.put(f"data/{tmp_path.name}/in/{number}", b"x")
    tiled = tile(at(s3, tmp_path, "in"), tmp_path / "out", tile_jpeg)

    assert (tiled.copied, tiled.bytes) == (2100, 2100)


def test_faults_on_the_way_change_nothing(s3: Storage, files: Path, tmp_path: Path) -> None:
    """Reads that fail now and then are repeated."""
    source, out = put(at(s3, tmp_path, "in"), files), at(s3, tmp_path, "out")
    options = StorageOptions(endpoint=s3.url, cache_bytes=0, retries=20)
    s3.faults(rate=0.3, kinds=["503", "reset", "truncate"], seed=5)
    tile(Url(source, options), Url(out, options), tile_jpeg)
    s3.faults()
    tile(str(files), tmp_path / "here", tile_jpeg)

    assert content(out) == content(tmp_path / "here")


def test_what_is_refused_is_one_sentence(s3: Storage, files: Path, tmp_path: Path) -> None:
    """Empty prefixes, other files, copies among originals, servers that take nothing, and what cannot be reached."""
    source, out = put(at(s3, tmp_path, "in"), files), at(s3, tmp_path, "out")
    for place, target, words in (
        (at(s3, tmp_path, "none"), out, "holds no objects: give a prefix"),
        (Url(f"{source}/cats/*.jpg", source.options), out, "is no .tar shard: give the prefix"),
        (Url(f"{source}/{{a,c}}.tar", source.options), out, "no such object"),
        (source, Url(f"{source}/cats", source.options), "holds the originals or lies among them"),
        (Url(f"{source}/*.tar", source.options), source, "holds the originals or lies among them"),
        (source, "https://host/folder", "HTTP servers take no files"),
        ("https://host/folder", out, "is no prefix of an object store"),
        (source, Url("s3://nowhere/out", source.options), "no such bucket"),
        ("ftp://host/a.tar", out, "cannot be read: give a URL that begins with"),
        (str(tmp_path / "nothing"), out, "does not exist: give a folder or .tar shards"),
    ):
        with pytest.raises((PrepareError, SourceError), match=words) as raised:
            tile(place, target, tile_jpeg)
        assert "\n" not in str(raised.value)
    s3.faults(writes=["403"])
    with pytest.raises(PrepareError, match=r"cannot be written \(access was refused"):
        tile(source, out, tile_jpeg)


def test_what_cannot_be_read_is_told_and_tried_again(
    s3: Storage, files: Path, tmp_path: Path, run: Run
) -> None:
    """A task ends with exit code 2 as the whole does, and the next one finds it."""
    out = at(s3, tmp_path, "out")
    (files / "dogs" / "z.jpg").symlink_to("nowhere")
    (files / "dogs" / "x\udcff.jpg").write_bytes(b"name")
    code, printed, error = run("tile", files, out, "--task", "0/1", "--workers", "1")
    assert code == 2
    assert "2 files could not be read" in " ".join(error.split())
    assert "No such file or directory" in printed
    assert "no object may have its name" in printed
    (files / "dogs" / "z.jpg").unlink()
    (files / "dogs" / "x\udcff.jpg").unlink()
    open_destination(out).remove(tile_plan.PLAN)  # as the refusal of a command without tasks says
    assert tile(str(files), out, tile_jpeg, executor=Backwards()).lost == []
    assert run("tile", files, out, "--task", "0/1", "--workers", "1")[0] == 0


def test_tasks_that_are_done_twice(s3: Storage, files: Path, tmp_path: Path) -> None:
    """Of an executor or an array job: they leave what one leaves, and those of an array job count the same."""
    source, out = put(at(s3, tmp_path, "in"), files), at(s3, tmp_path, "out")
    badly = tile(source, at(s3, tmp_path, "badly"), tile_jpeg, executor=Backwards())
    for number in (1, 0, 1):
        tile(source, out, tile_jpeg, executor=ArrayTask(number, 2, LocalExecutor(1)))
    merged = tile(source, out, tile_jpeg, merge=True)

    assert merged == tile(str(files), tmp_path / "here", tile_jpeg)
    assert badly.bytes == merged.bytes
    for place in (out, at(s3, tmp_path, "badly")):
        assert content(place) == content(tmp_path / "here")
