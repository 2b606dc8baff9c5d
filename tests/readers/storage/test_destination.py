"""Files in a folder appear whole or not at all, whoever else writes them and whatever goes wrong."""

import errno
import fcntl
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from readers.formats.tar.dataset import SCAN
from readers.prepare import PrepareError
from readers.storage import atomic_file as module
from readers.storage.atomic_file import atomic_file
from readers.storage.blob import LocalBlob
from readers.storage.destination import create_indexed, indexes, open_destination
from readers.storage.index.find_or_build import find_index
from readers.storage.remote import StorageOptions, Url
from tests.support.destinations import tar_of, write_packed
from tests.support.remote_data import MakeJpeg
from tests.support.s3_server import ROOT


def all_files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def refuse(code: int) -> Callable[..., Any]:
    """Return a call of the operating system that fails."""
    return Mock(side_effect=OSError(code, os.strerror(code)))


def raise_after(write: Callable[[bytes], object], error: BaseException) -> None:
    write(b"half")
    raise error


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    """Until then there is no such name, and what had it before keeps it."""
    place = open_destination(tmp_path / "out")
    for content in (b"first", b"second, and longer"):
        with place.create("deep/in/it.bin") as file:
            file.write(content[:3])
            assert place.read("deep/in/it.bin") in (None, b"first")
            assert list(place.names()) == (["deep/in/it.bin"] if content != b"first" else [])
            file.write(memoryview(content)[3:])
            assert file.tell() == len(content)
        assert place.read("deep/in/it.bin") == content
    assert place.size_bytes("deep/in/it.bin") == len(content)
    assert all_files(tmp_path) == ["out/deep/in/it.bin"]


def test_a_file_that_is_not_finished_never_was(tmp_path: Path) -> None:
    """An error in the block is handed on as it is, also one of a file that was read, and leaves nothing."""
    place = open_destination(tmp_path)
    with place.create("a") as file:
        file.write(b"before")
    for error in (RuntimeError("stop"), OSError(errno.EIO, "of the source"), KeyboardInterrupt()):
        with pytest.raises(type(error)) as caught, place.create("a") as file:
            raise_after(file.write, error)
        assert caught.value is error
    assert all_files(tmp_path) == ["a"]
    assert place.read("a") == b"before"


@pytest.mark.parametrize("locks", [True, False])
def test_writers_at_once_share_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locks: bool
) -> None:
    """Of three that write in turns the last one to end wins, whole; also where a file system knows no locks."""
    if not locks:
        monkeypatch.setattr(fcntl, "flock", refuse(errno.ENOLCK))
    place = open_destination(tmp_path)
    with ExitStack() as stack:
        files = [stack.enter_context(place.create("a")) for _ in range(3)]
        for _ in range(50):
            for number, file in enumerate(files):
                file.write(bytes([number]) * (1000 + number))
    assert place.read("a") == bytes([0]) * 50_000  # a stack ends its first last
    assert all_files(tmp_path) == ["a"]


def test_a_file_keeps_the_name_it_got_while_another_waits_for_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between one's opening of the temporary name and its lock, another finishes: the finished file is not emptied."""
    flock, others = fcntl.flock, []

    def finish_first(descriptor: int, how: int) -> None:
        if not others:
            others.append(True)
            monkeypatch.setattr(fcntl, "flock", flock)
            with atomic_file(tmp_path / "a") as other:
                other.write(b"finished")
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", finish_first)
    with atomic_file(tmp_path / "a") as file:
        assert (tmp_path / "a").read_bytes() == b"finished"
        file.write(b"later")
    assert ((tmp_path / "a").read_bytes(), all_files(tmp_path)) == (b"later", ["a"])


KILLED = """
import os, signal, sys
from readers.storage.destination import open_destination
with open_destination(sys.argv[1]).create("a") as file:
    file.write(bytes(1 << 20))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_failed_writer_removes_no_file_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that begins while a failed one removes its temporary file uses another name."""
    path, remove, others = tmp_path / "x", Path.unlink, ExitStack()

    def begin_and_remove(part: Path, missing_ok: bool = False) -> None:
        monkeypatch.setattr(Path, "unlink", remove)
        others.enter_context(atomic_file(path)).write(b"two")
        remove(part, missing_ok)

    monkeypatch.setattr(Path, "unlink", begin_and_remove)
    failing = atomic_file(path)
    failing.__enter__().write(b"one")
    failing.__exit__(RuntimeError, RuntimeError(), None)
    others.close()

    assert path.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [path]


def test_a_killed_writer_leaves_no_file(tmp_path: Path) -> None:
    """What it leaves has a name that is no file's, and the next one on this machine takes it up."""
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], cwd=ROOT, timeout=60)
    assert done.returncode == -signal.SIGKILL
    [left] = all_files(tmp_path)
    place = open_destination(tmp_path)
    assert list(place.names()) == []
    assert place.read("a") is None
    with place.create("a") as file:
        file.write(b"whole")
    assert place.read("a") == b"whole"
    assert all_files(tmp_path) == ["a"]
    assert left.startswith(".gpuaug-")


def test_another_machine_has_other_temporary_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where locks do not reach from machine to machine, as on some network file systems."""
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    with atomic_file(tmp_path / "a") as file:
        file.write(b"one")
        file.flush()
        monkeypatch.setattr(module, "_kernel", lambda: "another")
        with atomic_file(tmp_path / "a") as other:
            other.write(b"the other")
        assert (tmp_path / "a").read_bytes() == b"the other"
    assert (tmp_path / "a").read_bytes() == b"one"


def test_files_have_the_rights_of_ordinary_ones(tmp_path: Path) -> None:
    """Those that the process's mask leaves."""
    before = os.umask(0o027)
    try:
        with open_destination(tmp_path).create("a") as file:
            file.write(b"x")
        (tmp_path / "ordinary").write_bytes(b"x")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "ordinary").stat().st_mode


@pytest.mark.parametrize("num_bytes", [10, 1 << 20])
def test_a_full_disk_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_bytes: int
) -> None:
    """Whether it fills up in the middle or at the end; the kernel's own refusal."""
    place = open_destination(tmp_path)
    with place.create("a") as file:
        file.write(b"before")
    monkeypatch.setattr(
        module, "_open_own", lambda path: (path / "none", os.open("/dev/full", os.O_WRONLY))
    )
    told = r"/a cannot be written \(No space left on device\): what is there is whole, so make room and run the same"
    with pytest.raises(PrepareError, match=told), place.create("a") as file:
        file.write(bytes(num_bytes))
    assert place.read("a") == b"before"


def test_a_place_that_takes_nothing_is_one_sentence() -> None:
    """Nothing is there, so nothing is said of it."""
    told = r"^/proc/x/a cannot be written \(No such file or directory\): give a folder that can be written and run the"
    with pytest.raises(PrepareError, match=told), open_destination("/proc/x").create("a"):
        pass


def test_a_full_disk_under_a_parquet_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence comes through pyarrow, whose writer takes the file otherwise."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    place, table = open_destination(tmp_path), pa.table({"key": [str(n) for n in range(100_000)]})
    with place.create("a.parquet") as file:
        parquet.write_table(table, file)
    assert parquet.read_table(place.at("a.parquet")) == table
    monkeypatch.setattr(
        module, "_open_own", lambda path: (path / "none", os.open("/dev/full", os.O_WRONLY))
    )
    with (
        pytest.raises(PrepareError, match="No space left"),
        place.create("a.parquet") as file,
        parquet.ParquetWriter(file, table.schema) as writer,
    ):
        writer.write_table(table)


def test_what_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read-only file system, a file where a folder is wanted, and a folder where a file is."""
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(PrepareError, match="file is a file: give the path of a folder"):
        open_destination(tmp_path / "file")
    place = open_destination(tmp_path)
    for name, told in (
        ("file/a", "so give the path of a folder and run"),
        ("folder", "so remove the folder of that name and run"),
    ):
        with pytest.raises(PrepareError, match=told), place.create(name) as file:
            file.write(b"x")
    assert place.read("file/a") is None
    assert place.size_bytes("file/a") is None

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse(errno.EROFS))
        told = r"a cannot be written \(Read-only .*so give a folder that can be written and run"
        with pytest.raises(PrepareError, match=told), place.create("a"):
            pass
    assert all_files(tmp_path) == ["file"]


def test_names_are_those_of_finished_files(tmp_path: Path) -> None:
    """In all folders, or below one; none of a folder that is not there."""
    place = open_destination(tmp_path / "out")
    assert list(place.names()) == []
    for name in ("a", "b/c", ".gpuaug-plan/entries/0", ".gpuaug-plan/plan"):
        with place.create(name) as file:
            file.write(b"x")
    with place.create("unfinished"):
        assert sorted(place.names()) == [".gpuaug-plan/entries/0", ".gpuaug-plan/plan", "a", "b/c"]
    assert sorted(place.names(".gpuaug-plan")) == [".gpuaug-plan/entries/0", ".gpuaug-plan/plan"]
    place.remove("a")
    place.remove("a")
    assert sorted(place.names()) == [
        ".gpuaug-plan/entries/0",
        ".gpuaug-plan/plan",
        "b/c",
        "unfinished",
    ]
    assert pickle.loads(pickle.dumps(place)).read("b/c") == b"x"


def test_only_stores_with_buckets_are_destinations() -> None:
    """HTTP servers take no files, and the error tells no password; other schemes nobody knows."""
    with pytest.raises(
        PrepareError, match=r"https://host/folder cannot .* HTTP servers take no f"
    ) as error:
        open_destination("https://me:sEcReT@host/folder?X-Signature=sEcReT")
    assert "sEcReT" not in str(error.value)
    with pytest.raises(
        PrepareError, match="ftp://host/a cannot be written: give a folder, or a URL"
    ):
        open_destination("ftp://host/a")
    with pytest.raises(PrepareError, match="s3:// names no bucket"):
        open_destination("s3://")
    place = open_destination(Url("s3://bucket/a/b/", StorageOptions(retries=3)))
    assert place.location == "s3://bucket/a/b"
    assert pickle.loads(pickle.dumps(place)).at("c").options.retries == 3


def test_an_index_lies_beside_its_shard(tmp_path: Path, jpeg: MakeJpeg) -> None:
    """It is that of the format, so that opening the shard builds none."""
    place = open_destination(tmp_path / "out")
    write_packed(place, jpeg)
    names = [name for name in place.names() if ".tar" in name]
    assert sorted(names) == sorted(
        f"shard-00000{n}.tar{end}" for n in range(2) for end in ("", ".gpuaug-index")
    )
    with (
        pytest.raises(Exception, match="is not a tar file"),
        create_indexed(place, "x", SCAN) as file,
    ):
        file.write(b"no tar" * 1000)


def test_a_shard_that_another_writer_replaces_has_its_index(
    tmp_path: Path, jpeg: MakeJpeg, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tasks that write one shard at once: that the other one's comes while this is indexed does no harm."""
    shard, data, replaced = tmp_path / "out" / "shard.tar", tar_of(jpeg, range(8)), []

    def opened(location: str) -> LocalBlob:
        blob = LocalBlob(location)
        if not replaced:
            replaced.append(location)
            (tmp_path / "other").write_bytes(data)
            (tmp_path / "other").replace(shard)
        return blob

    monkeypatch.setattr(indexes, "LocalBlob", opened)
    with create_indexed(open_destination(tmp_path / "out"), "shard.tar", SCAN) as file:
        file.write(data)

    assert replaced
    assert find_index(LocalBlob(shard), SCAN) is not None
