"""`gpu-aug tile`: copies with the same pixels, and nothing lost on the way."""

import os
import re
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
from webdataset.tariterators import group_by_keys, tar_file_expander

from readers import Sample, TarDataset, restart_offsets
from readers.prepare.atomic_files import locked
from tests.support.commands import Run

Jpeg = Callable[..., bytes]
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def source(tmp_path: Path, jpeg: Jpeg) -> Path:
    """Class folders with JPEGs, one of them damaged, and files of other kinds."""
    folder = tmp_path / "source"
    for name in ("cats/small", "dogs", "empty"):
        (folder / name).mkdir(parents=True)
    for number in range(3):
        (folder / "cats" / f"{number}.jpg").write_bytes(jpeg(260, 340, seed=number))
    (folder / "cats" / "small" / "deep.JPEG").write_bytes(jpeg(300, 200, progressive=True))
    (folder / "dogs" / "torn.jpg").write_bytes(jpeg(260, 340, seed=7)[:9000])
    (folder / "dogs" / "page.jpg").write_text("<html>404</html>")
    (folder / "dogs" / "no-extension").write_bytes(jpeg(260, 340, seed=8))
    (folder / "labels.csv").write_text("0,cat\n")
    (folder / ".hidden").write_bytes(b"")
    os.utime(folder / "cats" / "1.jpg", ns=(10**18, 10**18 + 7))
    (folder / "cats" / "1.jpg").chmod(0o640)
    return folder


TILED = ["cats/0.jpg", "cats/1.jpg", "cats/2.jpg", "cats/small/deep.JPEG", "dogs/no-extension"]


def content(folder: Path) -> dict[str, bytes | None]:
    """Every file with its bytes, every folder with None."""
    return {
        str(path.relative_to(folder)): None if path.is_dir() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
    }


def pixels(data: bytes) -> np.ndarray:
    picture = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    assert picture is not None
    return picture


def assert_tiled(before: bytes, after: bytes) -> None:
    assert restart_offsets(after) is not None
    np.testing.assert_array_equal(pixels(after), pixels(before))


@pytest.mark.parametrize("workers", [1, 3])
def test_a_tree_is_copied_with_tiled_jpegs(
    run: Run, source: Path, tmp_path: Path, workers: int
) -> None:
    """JPEGs have markers and their old pixels; all else has its old bytes, and the source stays as it was."""
    before = content(source)

    code, printed, _ = run("tile", source, tmp_path / "out", "--workers", workers)

    after = content(tmp_path / "out")
    assert code == 0
    assert content(source) == before
    assert after.keys() == before.keys()
    assert [name for name in after if after[name] != before[name]] == TILED
    for name in TILED:
        assert_tiled(before[name] or b"", after[name] or b"")
    assert "tiled: 5; left as they were: 1\n    1  truncated" in printed
    assert "copied: 3" in printed


def test_mode_and_time_are_kept(run: Run, source: Path, tmp_path: Path) -> None:
    """A copy is as readable and as old as its file."""
    run("tile", source, tmp_path / "out")
    old, new = ((folder / "cats" / "1.jpg").stat() for folder in (source, tmp_path / "out"))

    assert (old.st_mode, old.st_mtime_ns) == (new.st_mode, new.st_mtime_ns)
    assert new.st_mtime_ns == 10**18 + 7


def test_sizes_are_summed_up(run: Run, source: Path, tmp_path: Path) -> None:
    """The summary's growth is that of the folders."""
    _, printed, _ = run("tile", source, tmp_path / "out")
    before, after = (
        sum(len(data or b"") for data in content(folder).values())
        for folder in (source, tmp_path / "out")
    )
    found = re.search(r"\(([+-].*)%\)", printed)

    assert found is not None
    assert float(found[1]) == pytest.approx(100 * (after / before - 1), abs=0.006)


def test_a_second_run_keeps_what_is_there(run: Run, source: Path, tmp_path: Path) -> None:
    """Only what is missing, empty or older than its source is written again."""
    out = tmp_path / "out"
    run("tile", source, out)
    expected = content(out)
    (out / "cats" / "0.jpg").unlink()
    (out / "cats" / "1.jpg").write_bytes(b"")
    os.utime(out / "cats" / "1.jpg", ns=(10**18, 10**18 + 7))
    os.utime(source / "dogs" / "no-extension", ns=(10**18, 10**18))
    (out / "cats" / "2.jpg").write_bytes(b"marked")
    time = (source / "cats" / "2.jpg").stat().st_mtime_ns
    os.utime(out / "cats" / "2.jpg", ns=(time, time))

    code, printed, _ = run("tile", source, out)

    assert code == 0
    assert "tiled: 3; left as they were: 0" in printed
    assert "finished before: 6" in printed
    assert content(out) == {**expected, "cats/2.jpg": b"marked"}


KILL = """
import os, signal, sys
from pathlib import Path
from bench.cli import main
replace, count = Path.replace, 0
def killing(self, target):
    global count
    count += 1
    if count == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return replace(self, target)
Path.replace = killing
main(["tile", *sys.argv[1:], "--workers", "2"])
"""


def test_a_killed_run_is_taken_up(run: Run, source: Path, tmp_path: Path) -> None:
    """After kill -9 every file that has its name is whole, and a second run gives what one would have given."""
    run("tile", source, tmp_path / "whole")
    out = tmp_path / "out"
    command = [sys.executable, "-c", KILL, str(source), str(out)]
    killed = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=120)
    whole = content(tmp_path / "whole")
    there = {name: data for name, data in content(out).items() if ".gpuaug-" not in name}

    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert len(there) < len(whole)
    assert there.items() <= whole.items()
    assert run("tile", source, out)[0] == 0
    assert content(out) == whole


def test_what_cannot_be_read_is_named(run: Run, source: Path, tmp_path: Path) -> None:
    """A pipe and a link to nowhere are missing in the copy, said so, and stop nothing."""
    os.mkfifo(source / "cats" / "pipe.jpg")
    (source / "dogs" / "link.jpg").symlink_to("nowhere")

    code, printed, error = run("tile", source, tmp_path / "out")

    assert code == 2
    assert "pipe.jpg: it is not a regular file" in printed
    assert "link.jpg: it cannot be read (No such file or directory)" in printed
    assert "2 files could not be read" in error
    assert "tiled: 5" in printed


def test_links_are_followed(run: Run, source: Path, tmp_path: Path) -> None:
    """Linked files and folders become files and folders; a link to a folder above is passed over."""
    (source / "dogs" / "linked.jpg").symlink_to(source / "cats" / "0.jpg")
    (source / "more").symlink_to(source / "cats")
    (source / "cats" / "up").symlink_to(source)
    run("tile", source, tmp_path / "out")
    copy = (tmp_path / "out" / "dogs" / "linked.jpg").read_bytes()

    assert_tiled((source / "cats" / "0.jpg").read_bytes(), copy)
    assert (tmp_path / "out" / "more" / "0.jpg").read_bytes() == copy
    assert not (tmp_path / "out" / "more").is_symlink()
    assert not (tmp_path / "out" / "cats" / "up").exists()


@pytest.fixture
def shard(source: Path, tmp_path: Path) -> Path:
    """A shard of the source's files with labels, long names, a folder and a link."""
    path = tmp_path / "shards" / "a.tar"
    path.parent.mkdir()
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:
        archive.add(source / "cats", "cats", recursive=False)
        for number in range(3):
            for suffix, file in (("jpg", f"cats/{number}.jpg"), ("csv", "labels.csv")):
                archive.add(source / file, f"cats/{'long' * 40}{number}.{suffix}")
        archive.add(source / "dogs" / "torn.jpg", "torn-\udcff.jpg")
        link = tarfile.TarInfo("link.jpg")
        link.type, link.linkname = tarfile.SYMTYPE, "torn.jpg"
        archive.addfile(link)
    return path


def members(path: Path) -> list[tuple[object, ...]]:
    """Everything that a tar says of its members but their content."""
    with tarfile.open(path, errors="surrogateescape") as archive:
        return [(m.name, m.type, m.mode, m.mtime, m.uid, m.uname, m.linkname) for m in archive]


def by_webdataset(path: Path) -> list[dict[str, bytes]]:
    with path.open("rb") as file:
        return list(group_by_keys(tar_file_expander([{"url": path.name, "stream": file}])))


@pytest.mark.parametrize("kind", ["gnu", "pax"])
def test_a_shard_differs_in_its_jpegs_alone(
    run: Run, shard: Path, tmp_path: Path, kind: str
) -> None:
    """Members, their order, names and times stay; webdataset and our reader find the same samples."""
    if kind == "pax":
        again = shard.with_name("b.tar")
        with (
            tarfile.open(shard, errors="surrogateescape") as old,
            tarfile.open(again, "w", format=tarfile.PAX_FORMAT) as new,
        ):
            for info in old:
                info.mtime += 0.25
                info.pax_headers = {"size": str(info.size)} if info.size else {}
                new.addfile(info, old.extractfile(info) if info.isreg() else None)
        shard = again
    out = tmp_path / "out"

    code, printed, _ = run("tile", shard, out)

    assert code == 0
    assert "tiled: 3; left as they were: 1" in printed
    assert members(out / shard.name) == members(shard)
    assert sorted(path.name for path in out.iterdir()) == [shard.name, f"{shard.name}.gpuaug-index"]
    before, after = by_webdataset(shard), by_webdataset(out / shard.name)
    assert [s["__key__"] for s in after] == [s["__key__"] for s in before]
    for old_sample, new_sample in zip(before[:3], after[:3], strict=True):
        assert_tiled(old_sample["jpg"], new_sample["jpg"])
        assert new_sample["csv"] == old_sample["csv"]
    assert after[3]["jpg"] == before[3]["jpg"]
    for sample in TarDataset([out / shard.name]).fetch(range(3)):
        assert isinstance(sample, Sample)
        assert sample.restarts is not None


def test_shards_in_a_folder_are_tiled_too(run: Run, shard: Path, tmp_path: Path) -> None:
    """A folder of shards gives a folder of shards; indexes are made, not copied; a second run keeps them."""
    TarDataset([shard])
    old_index = shard.with_name("a.tar.gpuaug-index").read_bytes()
    (shard.parent / "readme.txt").write_text("a shard")
    out = tmp_path / "out"

    code, printed, _ = run("tile", shard.parent, out)
    again = run("tile", shard.parent, out)[1]

    assert code == 0
    assert "tiled: 3" in printed
    assert "finished before: 2" in again
    assert sorted(content(out)) == ["a.tar", "a.tar.gpuaug-index", "readme.txt"]
    assert (out / "a.tar.gpuaug-index").read_bytes() != old_index


def test_a_pattern_names_shards(run: Run, shard: Path, tmp_path: Path) -> None:
    """The shards of a pattern are tiled, and nothing else that lies beside them."""
    for name in ("b", "c"):
        shard.with_name(f"{name}.tar").write_bytes(shard.read_bytes())

    code, printed, _ = run("tile", shard.parent / "{a,c}.tar", tmp_path / "out")

    assert code == 0
    assert "tiled: 6" in printed
    assert sorted(path.name for path in (tmp_path / "out").glob("*.tar")) == ["a.tar", "c.tar"]


@pytest.mark.parametrize("kind", ["cut off", "damaged", "behind the end", "compressed", "no tar"])
def test_a_shard_that_is_not_whole_is_copied_as_it_is(
    run: Run, shard: Path, tmp_path: Path, kind: str
) -> None:
    """Not a byte is lost of a shard that cannot be taken apart, and the reason is counted."""
    data = shard.read_bytes()
    header = data.index(b"ustar", 20_000)
    shard.write_bytes(
        {
            "cut off": data[: len(data) // 2],
            "damaged": data[:header] + b"\x99" + data[header + 1 :],
            "behind the end": data + data,
            "compressed": b"\x1f\x8b" + data,
            "no tar": b"text",
        }[kind]
    )
    broken = shard.read_bytes()

    code, printed, _ = run("tile", shard.parent, tmp_path / "out")

    assert code == 0
    assert (tmp_path / "out" / "a.tar").read_bytes() == broken
    assert re.search(r"tiled: 0; left as they were: 1\n +1  a shard that .*, copied whole", printed)


@pytest.mark.parametrize(
    ("given", "destination", "expected"),
    [
        ("source", "source", "give a folder elsewhere"),
        ("source", "source/../source/", "give a folder elsewhere"),
        ("source", "source/cats/out", "give a folder elsewhere"),
        ("source/cats", "source", "give a folder elsewhere"),
        ("linked", "source", "give a folder elsewhere"),
        ("shards/a.tar", "shards", "give a folder elsewhere"),
        ("missing", "out", "missing does not exist"),
        ("shards/{a,b}.tar", "out", "b.tar does not exist"),
        ("source/labels.csv", "out", "is no .tar shard"),
        ("{shards,more}/a.tar", "out", "have the same name"),
        ("source", "source/labels.csv", "is a file"),
        ("source", "shards/a.tar/out", "cannot be made"),
    ],
)
def test_a_wrong_place_is_one_sentence(
    run: Run,
    given: str,
    destination: str,
    expected: str,
    shard: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is written where originals and copies would mix, or where there is nothing to copy."""
    monkeypatch.chdir(tmp_path)
    Path("linked").symlink_to("source")
    Path("more").mkdir()
    Path("more/a.tar").write_bytes(shard.read_bytes())
    before = content(tmp_path)

    code, _, printed = run("tile", given, destination)

    assert code == 2
    assert printed.startswith("error: ")
    assert expected in printed.replace("\n", " ")
    assert content(tmp_path) == before


def test_workers_are_checked(run: Run, source: Path, tmp_path: Path) -> None:
    """No worker is no work."""
    code, _, printed = run("tile", source, tmp_path / "out", "--workers", 0)

    assert code == 2
    assert "workers must be 1 or more, got 0" in printed


def test_two_commands_do_not_write_to_one_folder(run: Run, source: Path, tmp_path: Path) -> None:
    """A folder that a running command holds is refused."""
    with locked(tmp_path / "out"):
        code, _, printed = run("tile", source, tmp_path / "out")

    assert code == 2
    assert "is being written by another command" in printed
    assert run("tile", source, tmp_path / "out")[0] == 0


def test_a_full_disk_is_one_sentence(
    run: Run, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be written stops the command and leaves no half file behind."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    code, _, printed = run("tile", source, tmp_path / "out")

    assert code == 2
    assert "cannot be written (No space left on device)" in printed
    assert not [name for name, data in content(tmp_path / "out").items() if data is not None]
