"""`tile` in tasks makes the copies of one process, whoever carries them out, and says what is missing."""

import os
import shutil
import tarfile
from pathlib import Path
from platform import node

import pytest

from dali_pipes.jpeg.tiling.add_restarts import tile_jpeg
from readers import SourceError, open_dataset
from readers.prepare import PrepareError, tile, tile_plan
from readers.prepare.executor import ArrayTask, LocalExecutor
from tests.support.commands import Run
from tests.support.executors import Backwards
from tests.support.packed import Jpeg


@pytest.fixture
def files(tmp_path: Path, jpeg: Jpeg, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Seven files in three folders, one of them empty, and two shards: six groups."""
    monkeypatch.setattr(tile_plan, "_MOST_FILES", 2)
    folder = tmp_path / "files"
    for name in ("cats", "dogs", "empty"):
        (folder / name).mkdir(parents=True)
    for number in range(6):
        data = jpeg(120, 160, seed=number)[: 3000 if number == 4 else None]
        (folder / ("cats", "dogs")[number % 2] / f"{number}.jpg").write_bytes(data)
    os.utime(folder / "cats" / "2.jpg", ns=(10**18, 10**18 + 7))
    (folder / "labels-\udcff.csv").write_text("0,cat\n")
    for name in ("a", "b"):
        with tarfile.open(folder / f"{name}.tar", "w") as archive:
            archive.add(folder / "cats" / "0.jpg", "0.jpg")
    return folder


def content(folder: Path) -> dict[str, object]:
    """Bytes, mode and time of every file, None for a folder; of indexes, which hold times, their names."""
    return {
        str(path.relative_to(folder)): None
        if path.is_dir()
        else (path.read_bytes(), path.stat().st_mode, path.stat().st_mtime_ns)
        if path.suffix != ".gpuaug-index"
        else True
        for path in sorted(folder.rglob("*"))
    }


def test_whoever_copies_makes_the_same(files: Path, tmp_path: Path) -> None:
    """Tasks in reverse order and twice, and tasks of an array job, leave what threads leave, and count the same."""
    expected = tile(str(files), tmp_path / "here", tile_jpeg, num_workers=2)
    executor = Backwards()
    badly = tile(str(files), tmp_path / "badly", tile_jpeg, executor=executor)
    for number in (2, 0, 1):
        task = ArrayTask(number, 3, LocalExecutor(1))
        tile(str(files), tmp_path / "array", tile_jpeg, executor=task)
    merged = tile(str(files), tmp_path / "array", tile_jpeg, merge=True)

    assert executor.done == [5, 4, 3, 3, 2, 1, 0, 0]
    assert (expected.jpegs.tiled, expected.copied, expected.kept) == (7, 3, 0)
    assert merged == expected
    assert badly.bytes == expected.bytes
    assert content(tmp_path / "badly") == content(tmp_path / "array") == content(tmp_path / "here")


def test_what_is_there_is_kept(files: Path, tmp_path: Path) -> None:
    """By the next run of an executor, and by one of this process."""
    tile(str(files), tmp_path / "out", tile_jpeg, executor=Backwards())
    (tmp_path / "out" / "cats" / "2.jpg").unlink()
    again = tile(str(files), tmp_path / "out", tile_jpeg, executor=LocalExecutor(1))

    assert (again.jpegs.tiled, again.kept) == (1, 8)
    assert tile(str(files), tmp_path / "out", tile_jpeg).kept == 9


def test_an_array_job_says_what_is_missing(files: Path, tmp_path: Path, run: Run) -> None:
    """A task that did not run, a copy that was lost, a source that has changed: each by name, and then all is well."""
    out = tmp_path / "out"
    options = ("tile", files, out, "--workers", "1")
    early = run(*options, "--merge")
    first = run(*options, "--task", "0/2")
    half = run(*options, "--merge")
    run(*options, "--task", "1/2")
    (out / "b.tar").unlink()
    lost = run(*options, "--merge")
    run(*options, "--task", "1/2")
    (files / "new.jpg").write_bytes(b"")
    changed = run(*options, "--merge")
    (files / "new.jpg").unlink()
    merged = run(*options, "--merge")

    assert "task 0/2: " in first[1]
    assert [one[0] for one in (early, half, lost, changed, merged)] == [2, 2, 2, 2, 0]
    for (_, _, error), words in (
        (early, "holds no plan of tasks"),
        (half, "3 of 6 groups of files are not in"),
        (lost, "1 of 6 groups of files are not in"),
        (lost, "with b.tar"),
        (changed, "the source has changed since its tasks began"),
    ):
        assert words in " ".join(error.split())
    assert not (out / ".gpuaug-plan").exists()


def test_other_sources_are_refused(files: Path, tmp_path: Path) -> None:
    """A task of another array job does not take up the plan that is there."""
    task = ArrayTask(0, 2, LocalExecutor(1))
    tile(str(files), tmp_path / "out", tile_jpeg, executor=task)

    with pytest.raises(PrepareError, match=r"is being tiled from .*files, not from .*cats"):
        tile(str(files / "cats"), tmp_path / "out", tile_jpeg, executor=task)


def test_what_one_machine_cannot_read_is_told_with_its_name(files: Path, tmp_path: Path) -> None:
    """Since others may well read it."""
    (files / "dogs" / "link.jpg").symlink_to("nowhere")
    tiled = tile(str(files), tmp_path / "out", tile_jpeg, executor=Backwards())

    assert tiled.lost == [
        f"{files / 'dogs' / 'link.jpg'}: it cannot be read (No such file or directory) on {node()}"
    ]


def test_a_destination_that_refuses_is_one_sentence(files: Path, tmp_path: Path) -> None:
    """And so is one that is no folder."""
    (tmp_path / "out" / "cats").mkdir(parents=True)
    (tmp_path / "out" / "cats" / "2.jpg").mkdir()

    with pytest.raises(
        PrepareError, match=r"cannot be written \(Is a directory\): .*so mend it and run"
    ):
        tile(str(files), tmp_path / "out", tile_jpeg, executor=Backwards())
    (tmp_path / "out2").write_bytes(b"")
    with pytest.raises(PrepareError, match=r"out2 is a file: give the path of a folder"):
        tile(str(files), tmp_path / "out2", tile_jpeg)


def test_a_folder_that_is_half_tiled_is_not_opened(files: Path, tmp_path: Path) -> None:
    """Else somebody would train on a part of the data; the whole is opened."""
    for name in ("a.tar", "b.tar", "labels-\udcff.csv"):
        (files / name).unlink()
    (files / "empty").rmdir()
    tile(str(files), tmp_path / "out", tile_jpeg, executor=ArrayTask(0, 2, LocalExecutor(1)))
    with pytest.raises(SourceError, match=r"was not tiled to its end: run the same gpu-aug tile"):
        open_dataset(tmp_path / "out")

    tile(str(files), tmp_path / "out", tile_jpeg, executor=ArrayTask(1, 2, LocalExecutor(1)))
    tile(str(files), tmp_path / "out", tile_jpeg, merge=True)
    assert len(open_dataset(tmp_path / "out")) == 6


def test_a_task_that_runs_again_after_the_merge_does_no_harm(files: Path, tmp_path: Path) -> None:
    """Nothing is begun anew, and a further merge counts what is there; a lost copy is told, and made."""
    out = tmp_path / "out"
    tasks = [ArrayTask(number, 2, LocalExecutor(1)) for number in range(2)]
    for task in tasks:
        tile(str(files), out, tile_jpeg, executor=task)
    merged = tile(str(files), out, tile_jpeg, merge=True)
    before = content(out)

    again = tile(str(files), out, tile_jpeg, executor=tasks[1])
    twice = tile(str(files), out, tile_jpeg, merge=True)

    assert content(out) == before
    assert (again.kept, twice.kept) == (9, 9)
    assert (twice.bytes, twice.source_bytes) == (merged.bytes, merged.source_bytes)
    (out / "b.tar").unlink()
    with pytest.raises(PrepareError, match="and not all copies: run them with --task first"):
        tile(str(files), out, tile_jpeg, merge=True)
    for task in tasks:
        tile(str(files), out, tile_jpeg, executor=task)
    tile(str(files), out, tile_jpeg, merge=True)
    assert (out / "b.tar").exists()


def test_a_run_without_an_executor_that_ended_early_is_no_dataset(
    files: Path, tmp_path: Path
) -> None:
    """Until the same command has ended, which takes the mark away."""
    out = tmp_path / "out"

    def ends(done: int, _: int) -> None:
        if done > 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tile(str(files), out, tile_jpeg, num_workers=1, on_progress=ends)
    with pytest.raises(SourceError, match="was not tiled to its end"):
        open_dataset(str(out))
    shutil.copytree(files, tmp_path / "others")
    for executor in (None, LocalExecutor(1)):
        with pytest.raises(
            PrepareError, match=r"is being tiled from .*files, not from .*: let that command end"
        ):
            tile(str(tmp_path / "others"), out, tile_jpeg, executor=executor)
    assert tile(str(files), out, tile_jpeg).kept > 0
    assert not (out / ".gpuaug-plan").exists()


def test_a_folder_with_something_else_is_left_alone(files: Path, tmp_path: Path) -> None:
    """With threads and with tasks; nothing is written among somebody's photographs."""
    (tmp_path / "mine" / "2024").mkdir(parents=True)
    (tmp_path / "mine" / "2024" / "cat.jpg").write_bytes(b"")
    before = content(tmp_path / "mine")

    for executor in (None, ArrayTask(0, 2, LocalExecutor(1))):
        with pytest.raises(PrepareError, match=r"mine holds 2024/cat\.jpg, which is no copy of"):
            tile(str(files), tmp_path / "mine", tile_jpeg, executor=executor)
    assert content(tmp_path / "mine") == before


def test_the_plan_of_an_array_job_is_nobody_elses(files: Path, tmp_path: Path) -> None:
    """A command without tasks, of this process or of an executor, does not take it away; nor do tasks that of a command."""
    out, plan = tmp_path / "out", tmp_path / "out" / ".gpuaug-plan" / "tiling.plan"
    tasks = [ArrayTask(number, 2, LocalExecutor(1)) for number in range(2)]
    tile(str(files), out, tile_jpeg, executor=tasks[0])
    before = plan.read_bytes()

    for executor in (None, LocalExecutor(1)):
        with pytest.raises(PrepareError, match="is being tiled by an array job, whose tasks need"):
            tile(str(files), out, tile_jpeg, executor=executor)
        with pytest.raises(PrepareError, match=r"from .*files, not from .*cats: run its tasks"):
            tile(str(files / "cats"), out, tile_jpeg, executor=executor)
    assert plan.read_bytes() == before
    tile(str(files), out, tile_jpeg, executor=tasks[1])
    assert tile(str(files), out, tile_jpeg, merge=True).jpegs.tiled == 7

    with pytest.raises(KeyboardInterrupt):
        tile(str(files), tmp_path / "one", tile_jpeg, on_progress=_end)
    with pytest.raises(PrepareError, match="is being tiled by one command and not by tasks"):
        tile(str(files), tmp_path / "one", tile_jpeg, executor=tasks[0])


def test_a_copy_whose_file_is_gone_is_named(files: Path, tmp_path: Path) -> None:
    """A second run does not know it from somebody's file, and says what to do."""
    tile(str(files), tmp_path / "out", tile_jpeg)
    (files / "cats" / "2.jpg").unlink()

    with pytest.raises(PrepareError, match=r"2\.jpg, .* that the source had earlier, remove it"):
        tile(str(files), tmp_path / "out", tile_jpeg)
    (tmp_path / "out" / "cats" / "2.jpg").unlink()
    assert tile(str(files), tmp_path / "out", tile_jpeg).kept == 8


def _end(*_: object) -> None:
    raise KeyboardInterrupt
