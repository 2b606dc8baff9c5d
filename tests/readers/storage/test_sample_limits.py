"""Nothing is read that is larger than the limit, and nothing that is no file is waited for."""

import os
import struct
import tarfile
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from readers import BadSample, Sample, SourceError, open_dataset
from readers.labels.classes import read_classes
from readers.storage.limits import VARIABLE
from readers.storage.whole_files import read_text, read_whole
from tests.support.one_other import jpeg

HOLES = 50 << 30


def enlarge(path: Path, size_bytes: int = HOLES) -> Path:
    with path.open("ab") as file:
        file.truncate(size_bytes)
    return path


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    (folder / "cat").mkdir(parents=True)
    for number in range(3):
        (folder / "cat" / f"{number}.jpg").write_bytes(jpeg(number))
    return folder


@pytest.mark.parametrize("name", ["1.jpg", "1.json", "1.mask.png"])
def test_files_and_what_lies_beside_them(photos: Path, name: str) -> None:
    """A file of 50 GB is one bad sample at once, also where it belongs to another."""
    enlarge(photos / "cat" / name)
    first, bad, last = open_dataset(photos).fetch([0, 1, 2])

    assert not isinstance(first, BadSample)
    assert not isinstance(last, BadSample)
    assert isinstance(bad, BadSample)
    assert f"{HOLES} bytes" in bad.reason
    assert not bad.transient


def test_members_of_a_tar(tmp_path: Path) -> None:
    """Of 20 GB of holes; the others are read."""
    path, size_bytes = tmp_path / "a.tar", 20 << 30
    with path.open("wb") as file:
        for number, content in enumerate((jpeg(0), jpeg(1), b"")):
            member = tarfile.TarInfo(f"{number}.jpg")
            member.size = len(content) or size_bytes
            file.write(member.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512))
        file.truncate(file.tell() + size_bytes + 1024)
    dataset = open_dataset(path)
    sound, _, bad = dataset.fetch([0, 1, 2])

    assert not isinstance(sound, BadSample)
    assert isinstance(bad, BadSample)
    assert f"{size_bytes} bytes" in bad.reason


def test_what_is_no_file(photos: Path) -> None:
    """A device, a pipe and a folder with the name of an image are not waited for."""
    (photos / "cat" / "3.jpg").symlink_to("/dev/zero")
    os.mkfifo(photos / "cat" / "4.jpg")
    found = open_dataset(photos).fetch([3, 4])

    assert ["not a regular file" in one.reason for one in found if isinstance(one, BadSample)] == [
        True,
        True,
    ]


def test_lists_and_descriptions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may have eight times as much as a sample, and no more."""
    path = tmp_path / "names.txt"
    path.write_text("cat\n" * 20)
    monkeypatch.setenv(VARIABLE, "10")

    assert read_text(path, "a list") == "cat\n" * 20
    path.write_text("cat\n" * 21)
    with pytest.raises(SourceError, match="cannot be read as a list: it would take 84 bytes"):
        read_text(path, "a list")
    with pytest.raises(SourceError, match=f"the file of classes .* set {VARIABLE}=11"):
        read_classes(path)
    with pytest.raises(OSError, match="more than 10") as caught:
        read_whole(path)
    assert isinstance(caught.value, ValueError)


def test_a_pipe_is_no_list(tmp_path: Path) -> None:
    """Opening it would wait for who writes to it."""
    os.mkfifo(tmp_path / "names.txt")
    with pytest.raises(SourceError, match="not a regular file"):
        read_text(tmp_path / "names.txt", "a list")


def test_a_picture_that_claims_more_pixels_than_it_holds(tmp_path: Path) -> None:
    """The header of a PNG of a few bytes is read without its pixels."""
    size = struct.pack(">II", 200_000, 200_000) + b"\1\0\0\0\0"
    header = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + size + zlib.crc32(b"IHDR" + size).to_bytes(4)
    (tmp_path / "a.png").write_bytes(header)
    [sample] = open_dataset([tmp_path / "a.png"]).fetch([0])

    assert isinstance(sample, Sample)
    assert bytes(sample.image or b"") == header


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("a.csv", ""),
        ("metadata.csv", ""),
        ("metadata.jsonl", "is not a file"),
        ("coco.json", ""),
        ("meta/info.json", "a class folder without images"),
        ("a.csv.gz", ""),
    ],
)
def test_pipes_and_devices_that_are_called_like_tables(
    photos: Path, name: str, refused: str, make: Callable[[Path], None]
) -> None:
    """They are not read when they are given, nor when they lie in a folder that is opened."""
    path = photos / name
    path.parent.mkdir(exist_ok=True)
    make(path)

    with pytest.raises(SourceError, match=f"{path.name}.*(not a (regular )?file|no known kind)"):
        open_dataset(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is left out
        if refused:
            with pytest.raises(SourceError, match=refused):
                open_dataset(photos)
        else:
            assert len(open_dataset(photos)) == 3


@pytest.mark.parametrize(
    ("name", "begin", "reason"),
    [
        ("coco.json", b"", "begins with zeros and is no JSON"),
        ("coco.json", b'{"images": [', "would take .* bytes of memory"),
        ("a.jsonl", b'{"image": "', "a line would take .* bytes of memory"),
        ("a.csv", b"image,label\n", "would take .* bytes of memory"),
    ],
)
def test_lists_that_are_mostly_holes(
    tmp_path: Path, name: str, begin: bytes, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are refused by their size or by their first line, before they are read."""
    monkeypatch.setenv(VARIABLE, "8000000")
    (tmp_path / name).write_bytes(begin)
    with pytest.raises(SourceError, match=reason):
        open_dataset(enlarge(tmp_path / name))
