"""``gpu-aug index``: builds what is missing, in processes of its own."""

import shutil
from pathlib import Path

import pytest

from readers import IndexFileError, TarDataset
from readers.prepare import index
from readers.storage.index.index_file import read_head
from tests.support.commands import Run
from tests.support.executors import Backwards
from tests.support.tars import write_tar


def write_names(path: Path, names: list[str]) -> Path:
    return write_tar(path, [(name, b"0007") for name in names])


def indexed(run: Run, *arguments: object) -> str:
    code, printed, _ = run("index", *arguments)
    assert code == 0
    return " ".join(printed.split())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three shards of two samples each."""
    (tmp_path / "data").mkdir()
    for number in range(3):
        write_names(tmp_path / "data" / f"{number}.tar", ["a.jpg", "a.cls", "b.jpg"])
    return tmp_path / "data"


def test_all_shards_are_indexed(folder: Path, run: Run) -> None:
    """By several processes; a second run finds what the first one built, and builds what is lost."""
    first = indexed(run, str(folder), "--workers", "2")
    indexes = sorted(folder.glob("*.gpuaug-index"))
    second = indexed(run, str(folder))
    indexes[1].unlink()
    third = indexed(run, str(folder), "--workers", "1")

    assert len(indexes) == 3
    for words in (
        "shards: 3, samples: 6",
        "built now: 3 indexes of 6 samples",
        "beside the shards",
    ):
        assert words in first
    assert "built now: none, all were there" in second
    assert "built now: 1 index of 2 samples" in third
    assert TarDataset(sorted(folder.glob("*.tar"))).fetch([0])[0].label == 7


@pytest.mark.filterwarnings("default")
def test_repeated_keys_are_told(tmp_path: Path, run: Run) -> None:
    """Images and labels that do not follow one another: each is a sample, which is seldom meant."""
    shard = write_names(tmp_path / "a.tar", ["a.jpg", "b.jpg", "a.cls", "b.cls"])

    code, _, error = run("index", str(shard))
    assert code == 0
    assert "2 samples with the key of an earlier one" in " ".join(error.split())


def test_a_source_without_indexes_is_told(photos: list[Path], tmp_path: Path, run: Run) -> None:
    """A folder of images needs none."""
    (tmp_path / "a.jpg").write_bytes(photos[0].read_bytes())

    assert "needs no index (format: class folders)" in indexed(run, str(tmp_path))


def test_a_shard_that_is_none_is_named(folder: Path, run: Run) -> None:
    """The error of another process comes as it is; the other shards may be indexed all the same."""
    (folder / "1.tar").write_bytes(b"<html>" * 400)
    code, _, error = run("index", folder, "--workers", "1")

    assert code == 2
    assert "1.tar is not a tar file" in " ".join(error.split())


def test_any_executor_builds_the_same(folder: Path, tmp_path: Path) -> None:
    """In reverse order and twice; a second run has nothing to do."""
    shards, executor = str(folder / "{0..2}.tar"), Backwards()
    shutil.copytree(folder, tmp_path / "other")
    index(str(tmp_path / "other" / "{0..2}.tar"), num_workers=1)
    found = index(shards, executor=executor)
    again = index(shards, executor=executor)

    assert executor.done == [2, 1, 0, 0]
    assert [entry.built for _, entry in again.shards] == [False] * 3
    assert found.dataset.fingerprint == again.dataset.fingerprint
    for path in sorted(folder.glob("*.gpuaug-index")):
        other = tmp_path / "other" / path.name
        head = read_head(path)[0]  # what comes before it is the stamp of the file
        assert head.mark == read_head(other)[0].mark
        assert path.read_bytes()[head.start :] == other.read_bytes()[head.start :]


def test_an_array_job_builds_its_parts(folder: Path, run: Run) -> None:
    """A task builds every second index; the merge names what is missing, and builds nothing."""
    first = indexed(run, folder, "--task", "0/2", "--workers", 1)
    code, _, error = run("index", folder, "--merge")
    lacking = not (folder / "1.tar.gpuaug-index").exists()
    second = indexed(run, folder, "--task", "1/2", "--workers", 1)
    merged = indexed(run, folder, "--merge")

    assert "built now: 2 indexes of 4 samples" in first
    assert "1 of 3 indexes are not there yet" in first
    assert code == 2
    assert f"1 of 3 shards have no index, the first is {folder / '1.tar'}" in error
    assert lacking
    assert "built now: 1 index of 2 samples" in second
    assert "shards: 3, samples: 6" in merged


def test_other_machines_must_find_the_index(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that lies in the cache of the machine that built it is no help to the others."""
    monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path / "cache"))
    for number in range(3):
        (folder / f"{number}.tar.gpuaug-index.part").mkdir()

    with pytest.raises(IndexFileError, match="cannot be written beside it, where other machines"):
        index(str(folder / "{0..2}.tar"), executor=Backwards())
    assert len(index(str(folder / "{0..2}.tar"), num_workers=1).shards) == 3
