"""Packing goes on where it was stopped, mixes nothing, and refuses what cannot be meant."""

import errno
import gzip
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from readers import SourceError, open_dataset
from readers.prepare import Job, LocalExecutor, PrepareError, load_plan, pack, stream_packing
from readers.prepare.packing import size_from
from readers.prepare.source import open_source
from readers.prepare.workers import Processes
from readers.storage.destination import indexes
from readers.storage.lock import lock_folder
from tests.support.commands import Run
from tests.support.executors import WaitForFile, die
from tests.support.first_bytes import FirstBytes
from tests.support.killed_pack import OPTIONS, pack_and_kill
from tests.support.packed import (
    ROOT,
    Jpeg,
    by_webdataset,
    content,
    refused,
    samples_of,
    shards_in,
)
from tests.support.processes import is_gone
from tests.support.tars import write_tar


@pytest.mark.parametrize(
    "place",
    [
        "readers.prepare.tar_shards:_pieces:7",  # within a shard, before its rename
        *(
            pytest.param(place, marks=pytest.mark.long)
            for place in (
                "readers.storage.destination.indexes:open_index:2",  # behind a rename, before the index
                "readers.prepare.shards.merging:_refuse_empty:1",  # in the middle of the manifest
                "readers.storage.destination.destination:LocalDestination.create:2",  # before the plan is there
                "readers.storage.destination.indexes:open_index:1",
                "readers.prepare.shards.making:note_shard:1",  # before an entry
                "readers.prepare.shards.making:note_shard:2",
                "readers.prepare.shards.merging:sweep:1",  # at the end
            )
        ),
    ],
)
def test_a_killed_run_goes_on(source: Path, tmp_path: Path, place: str) -> None:
    """After kill -9 a second run gives, byte for byte, what one run would have given."""
    out = tmp_path / "out"
    pack(str(source), tmp_path / "whole", **OPTIONS)
    pack_and_kill(place, source, out)
    there = {name: data for name, data in content(out).items() if name.endswith(".tar")}
    times = {path.name: path.stat().st_mtime_ns for path in shards_in(out)}
    done = [json.loads(path.read_bytes()) for path in out.glob(".gpuaug-plan/0*.json")]
    packed = pack(str(source), out, **OPTIONS)

    assert there.items() <= content(tmp_path / "whole").items()
    assert (packed.num_samples, content(out)) == (24, content(tmp_path / "whole"))
    assert not list(out.rglob(".gpuaug-*.part"))
    assert all((out / one["name"]).stat().st_mtime_ns == times[one["name"]] for one in done)
    assert len({sample["__key__"] for sample in by_webdataset(out)}) == 24


def test_an_index_that_cannot_be_written_is_tried_again(
    run: Run, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk at the first index is one sentence, and the next run goes on."""
    full = OSError(errno.ENOSPC, "No space left on device")
    with monkeypatch.context() as patch:
        patch.setattr(indexes, "open_index", Mock(side_effect=full))
        printed = refused(run, source, tmp_path / "out")

    assert "cannot be written (No space left on device)" in printed
    assert run("pack", source, tmp_path / "out")[0] == 0
    assert len(samples_of(tmp_path / "out")) == 24


def test_a_finished_run_writes_nothing(run: Run, source: Path, tmp_path: Path) -> None:
    """The same command again only sums up."""
    first = run("pack", source, tmp_path / "out")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}

    assert run("pack", source, tmp_path / "out") == first
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()} == before


@pytest.mark.parametrize("change", ["unlink", "cut"])
def test_a_lost_shard_is_made_again(run: Run, source: Path, tmp_path: Path, change: str) -> None:
    """A finished folder from which a shard is gone, or a part of one, is whole after the same command."""
    out = tmp_path / "out"
    run("pack", source, out, "--shard-size", "30kB")
    before = content(out)
    shard = shards_in(out)[1]
    shard.unlink() if change == "unlink" else os.truncate(shard, 100)

    assert run("pack", source, out, "--shard-size", "30kB")[0] == 0
    assert content(out) == before


def test_other_settings_are_not_mixed(run: Run, source: Path, tmp_path: Path, jpeg: Jpeg) -> None:
    """A folder that was begun in another way is refused with the difference, and stays as it is."""
    out = tmp_path / "out"
    run("pack", source, out)
    before = content(out)

    assert "shuffle was None, is 1" in refused(run, source, out, "--shuffle", 1)
    assert "is 1000" in refused(run, source, out, "--shard-size", "1kB")
    (source / "cats" / "new.jpg").write_bytes(jpeg(20, 30))
    assert "other data (24 samples then, 25 now)" in refused(run, source, out)
    assert content(out) == before


def test_foreign_folders_are_left_alone(run: Run, source: Path, tmp_path: Path) -> None:
    """A folder that holds something else, or a file that is no manifest, is refused."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "manifest.json").write_text("[]")

    assert "holds files and no manifest.json" in refused(run, source, tmp_path / "full")
    assert "is no manifest" in refused(run, source, tmp_path / "odd")
    assert "give a folder elsewhere" in refused(run, source, source / "shards")
    assert "Not a directory" in refused(run, source, tmp_path / "full" / "notes.txt" / "out")
    assert not (source / "shards").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--shard-size", "12 apples"], "got '12 apples'"),
        (["--shard-size", "0MB"], "got '0MB'"),
        (["--shuffle", -1], "shuffle must be 0 or more"),
        (["--workers", 0], "workers must be 1 or more"),
        (["--format", "zip"], "zip"),
    ],
)
def test_arguments_are_checked(
    run: Run, source: Path, tmp_path: Path, options: list[object], words: str
) -> None:
    """What cannot be meant is refused before anything is written."""
    assert words in refused(run, source, tmp_path / "out", *options)
    assert not (tmp_path / "out").exists()


def test_sources_and_destinations_are_checked(run: Run, source: Path, tmp_path: Path) -> None:
    """A source that is not there, and a folder that is called like a Parquet file."""
    out = tmp_path / "out"

    assert "does not exist" in refused(run, tmp_path / "missing", out)
    named = refused(run, source, tmp_path / "out.parquet")
    assert f"pack SRC {out} --format parquet" in " ".join(named.split())
    assert list(tmp_path.glob("out*")) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("256MB", 256_000_000),
        ("1GiB", 2**30),
        ("1.5 kb", 1500),
        ("7", 7),
        ("2T", 2 * 10**12),
        (64_000, 64_000),
    ],
)
def test_sizes_have_units(text: str | int, expected: int) -> None:
    """Units of ten and of two, in any case; numbers are bytes."""
    assert size_from(text) == expected


@pytest.mark.parametrize("given", ["MB", 2.5e8, True, 0, -3, None])
def test_what_is_no_size_is_refused(given: object) -> None:
    """A unit alone is none, nor is a fraction of bytes; the error has both ways to write one."""
    expected = rf"such as '256MB' or '1GiB', or a whole number of bytes, .* got {given!r}"
    with pytest.raises(PrepareError, match=expected):
        size_from(given)  # type: ignore[arg-type]


def test_nothing_to_pack_is_an_error(run: Run, tmp_path: Path) -> None:
    """A source without one sound image is refused, with the first reason."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "page.jpg").write_text("<html>404</html>")

    printed = refused(run, tmp_path / "source", tmp_path / "out")

    assert "no sample can be packed (the first of 1 is page.jpg" in printed


def test_two_commands_do_not_write_streams_to_one_folder(
    run: Run, source: Path, tmp_path: Path
) -> None:
    """A folder that a running command holds is refused where shards have no plan."""
    run("pack", source, tmp_path / "tar")
    [shard] = shards_in(tmp_path / "tar")
    with lock_folder(tmp_path / "out"):
        printed = refused(run, shard, tmp_path / "out", "--source-format", "stream")

    assert "is being written by another command" in printed


def test_another_stream_of_the_same_name_is_refused(run: Run, source: Path, tmp_path: Path) -> None:
    """A folder that was begun with one stream takes no other, not even of the same name and size."""
    run("pack", source, tmp_path / "tar")
    [shard] = shards_in(tmp_path / "tar")
    for name in "ab":
        (tmp_path / name).mkdir()
        packed = gzip.compress(shard.read_bytes(), mtime=ord(name))
        (tmp_path / name / "x.tar.gz").write_bytes(packed)
    out = tmp_path / "out"
    assert run("pack", tmp_path / "a" / "x.tar.gz", out)[0] == 0

    assert "begun with other data: repeat" in refused(run, tmp_path / "b" / "x.tar.gz", out)
    (tmp_path / "a" / "x.tar.gz").write_bytes(gzip.compress(shard.read_bytes(), 1))
    assert "begun with other data: repeat" in refused(run, tmp_path / "a" / "x.tar.gz", out)


@pytest.fixture
def stream(source: Path, tmp_path: Path) -> str:
    """A shard that is read front to back."""
    pack(str(source), tmp_path / "plain")
    return str(tmp_path / "plain" / "shard-000000.tar")


def pack_stream(stream: str, out: Path) -> dict[str, bytes]:
    """Pack a stream into small shards, and return these and the manifest."""
    pack(stream, out, source_format="stream", shard_size="30kB", finder=FirstBytes())
    return content(out)


@pytest.mark.parametrize("most", [1, 3])
def test_an_interrupted_stream_goes_on(
    stream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """The second run keeps the shards that have an entry, and ends with the bytes of one run."""
    note = stream_packing.note_shard
    interrupted = Mock(side_effect=[*["noted"] * (most - 1), KeyboardInterrupt])
    with monkeypatch.context() as patch:
        patch.setattr(stream_packing, "note_shard", lambda *given: (interrupted(), note(*given))[1])
        with pytest.raises(KeyboardInterrupt):
            pack_stream(stream, tmp_path / "out")
    times = [path.stat().st_mtime_ns for path in shards_in(tmp_path / "out")]
    with pytest.raises(SourceError, match="was not packed to its end"):
        open_dataset(tmp_path / "out")

    assert pack_stream(stream, tmp_path / "out") == pack_stream(stream, tmp_path / "whole")
    again = [path.stat().st_mtime_ns for path in shards_in(tmp_path / "out")]
    assert len(times) == most
    assert again[: most - 1] == times[:-1]


def test_a_lost_shard_of_a_stream_is_made_again(stream: str, tmp_path: Path) -> None:
    """With those behind it, from the stream; the bytes are the same."""
    before = pack_stream(stream, tmp_path / "out")
    shards_in(tmp_path / "out")[1].unlink()

    assert pack_stream(stream, tmp_path / "out") == before


def test_bad_samples_at_the_end_of_a_stream_are_listed(
    stream: str, tmp_path: Path, jpeg: Jpeg
) -> None:
    """The entry of the last shard lists them; a finished stream is not read again."""
    members = [("a.jpg", jpeg(20, 30)), ("b.jpg", b"no image"), ("c.jpg", b"")]
    write_tar(Path(stream), members)
    packed = pack(stream, tmp_path / "out", source_format="stream")

    assert [bad["key"] for bad in packed.bad_samples] == [
        "shard-000000.tar/b",
        "shard-000000.tar/c",
    ]
    assert (packed.num_samples, packed.num_shards, packed.is_stream) == (1, 1, True)
    assert pack(stream, tmp_path / "out", source_format="stream") == packed


def test_a_stream_without_a_sound_sample_is_an_error(stream: str, tmp_path: Path) -> None:
    """The first bad sample is named, also when the command is repeated."""
    write_tar(Path(stream), [("a.jpg", b"no image"), ("b.jpg", b"")])
    for _ in range(2):
        with pytest.raises(PrepareError, match=r"no sample can be packed \(the first of 2 is .*/a"):
            pack(stream, tmp_path / "out", source_format="stream")


def test_a_stream_is_not_merged_without_its_data(stream: str, tmp_path: Path) -> None:
    """Its plan has no boundaries, so a merge could not say what is missing."""
    pack_stream(stream, tmp_path / "out")

    with pytest.raises(PrepareError, match="holds shards of a stream"):
        load_plan(tmp_path / "out")


def test_a_killed_worker_is_one_sentence() -> None:
    """A worker that the kernel ends for want of memory says what can be done."""
    with Processes(1, die) as crew, pytest.raises(PrepareError, match="fewer --workers"):
        list(crew.map(die, range(9)))


def test_a_slow_task_holds_up_no_other(tmp_path: Path) -> None:
    """The result of a later task arrives, and can be marked as done, while the first one still works."""
    numbers = []
    for number, _ in LocalExecutor(2).run(Job(WaitForFile(tmp_path / "go"), [0, 1, 2])):
        numbers.append(number)
        (tmp_path / "go").touch()

    assert numbers[-1] == 0
    assert sorted(numbers) == [0, 1, 2]


def test_workers_repeat_no_warning(tmp_path: Path, capfd: Any) -> None:
    """What opening the data warns of is the command's to say, once and as a sentence."""
    (tmp_path / "a.jpg").write_bytes(b"image")
    with pytest.warns(UserWarning, match="has a label"):
        open_source(str(tmp_path))
    with Processes(1, open_source) as crew:
        [found] = crew.map(open_source, [str(tmp_path)])
    assert (len(found), capfd.readouterr().err) == (1, "")


BUSY = """
import sys, time
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from readers.prepare.source import open_source
from readers.prepare.workers import Processes
from readers.storage.destination import indexes
from tests.support.executors import linger
if __name__ == "__main__":
    with Processes(2, linger) as crew:
        list(crew.map(linger, [sys.argv[1]] * 9))
"""


def test_workers_end_with_a_killed_command(tmp_path: Path) -> None:
    """After kill -9 of the command no worker goes on."""
    workers = tmp_path / "workers"
    workers.mkdir()
    (tmp_path / "busy.py").write_text(BUSY)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(tmp_path / "busy.py"), str(workers)]
    with subprocess.Popen(command, cwd=ROOT, env=environment) as process:
        end = time.monotonic() + 60
        while len(list(workers.iterdir())) < 2 and time.monotonic() < end:
            time.sleep(0.02)
        process.kill()
    assert len(list(workers.iterdir())) == 2
    assert all(is_gone(int(path.name), wait_seconds=20) for path in workers.iterdir())
