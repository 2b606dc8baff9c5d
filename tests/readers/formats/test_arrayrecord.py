import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from readers import BadSample
from readers.formats.arrayrecord.dataset import ArrayRecordDataset
from tests.support.damage import flip
from tests.support.entries import fetch_all
from tests.support.opening import assert_refused

module = pytest.importorskip("array_record.python.array_record_module")

Jpeg = Callable[..., bytes]


def write(path: Path, records: list[bytes], options: str = "group_size:1") -> Path:
    file = module.ArrayRecordWriter(str(path), options)
    for record in records:
        file.write(record)
    file.close()
    return path


def opened(folder: Path, records: list[bytes], **options: Any) -> ArrayRecordDataset:
    """Write records and open them."""
    return ArrayRecordDataset([write(folder / "a", records)], **options)


def example(**features: object) -> bytes:
    writer = pytest.importorskip("tfrecord.writer").TFRecordWriter
    kinds = {bytes: "byte", int: "int", float: "float", list: "float"}
    return writer.serialize_tf_example({name: (v, kinds[type(v)]) for name, v in features.items()})


def noise(count: int, seed: int = 0) -> list[bytes]:
    rng = random.Random(seed)
    return [rng.randbytes(rng.choice([0, 1, 100, 5000])) for _ in range(count)]


@pytest.mark.parametrize(
    "options",
    [
        "group_size:1",
        "group_size:7",
        "group_size:1,uncompressed",
        "group_size:4,brotli:3",
        "snappy",
    ],
)
def test_records_are_those_of_the_library(tmp_path: Path, options: str) -> None:
    """Of several files, however they were packed and in any order, repetitions too."""
    files = [
        write(tmp_path / f"{number}.array_record", noise(30 + number, number), options)
        for number in range(3)
    ]
    expected = [
        record for path in files for record in module.ArrayRecordReader(str(path)).read_all()
    ]
    dataset = ArrayRecordDataset(files)
    wanted = random.Random(9).choices(range(len(expected)), k=300)

    samples = dataset.fetch(wanted)

    assert [sample.fields["record"] for sample in samples] == [expected[index] for index in wanted]
    assert [sample.index for sample in samples] == wanted
    assert (len(dataset), dataset.fetch([30])[0].key) == (93, "1.array_record/0")


def test_plain_images(tmp_path: Path, jpeg: Jpeg) -> None:
    """A record that begins like an image is one, and its size is told."""
    dataset = opened(tmp_path, [jpeg(20, 30), b"text", jpeg(9, 8)])
    samples = fetch_all(dataset)

    assert [sample.size for sample in samples] == [(20, 30), None, (9, 8)]
    assert [sample.image for sample in samples] == [jpeg(20, 30), None, jpeg(9, 8)]
    assert dataset.column("label").tolist() == [-1, -1, -1]


@pytest.mark.parametrize("group_size", [1, 4])
def test_damaged_chunk_costs_its_own_records(tmp_path: Path, group_size: int) -> None:
    """A changed byte costs the records of its chunk, whatever is fetched with them."""
    records = [bytes([65 + number]) * 1000 for number in range(20)]
    path = write(tmp_path / "a", records, f"group_size:{group_size},uncompressed")
    flip(path, path.read_bytes().index(records[9]) + 500, 1)
    dataset = ArrayRecordDataset([path])
    samples = dataset.fetch([9, *range(20), 9])
    bad = {sample.index for sample in samples if isinstance(sample, BadSample)}

    assert len(bad) == group_size
    assert 9 in bad
    assert "hash mismatch" in samples[0].reason
    assert str(tmp_path) not in samples[0].reason
    assert {sample.index for sample in dataset.verify()} == bad
    for sample in samples:
        assert isinstance(sample, BadSample) or sample.fields["record"] == records[sample.index]


def test_works_after_fork(tmp_path: Path) -> None:
    """Processes that are forked from one that has just read, and reads on in a thread, can read."""
    script = """
import os, sys, threading
from readers.formats.arrayrecord.dataset import ArrayRecordDataset
dataset = ArrayRecordDataset([sys.argv[1]])
def read():
    return [sample.fields["record"] for sample in dataset.fetch(range(len(dataset)))]
before = read()
thread = threading.Thread(target=lambda: [read() for _ in range(100)], daemon=True)
thread.start()
children = []
for _ in range(4):
    read()
    child = os.fork()
    if child == 0:
        os._exit(read() != before)
    children.append(child)
failed = any(os.waitpid(child, 0)[1] for child in children) or read() != before
thread.join()  # else the library ends the process by SIGABRT while a thread is in it
sys.exit(failed)
"""
    path = write(tmp_path / "a", noise(50))
    root = Path(__file__).resolve().parents[3]

    command = [sys.executable, "-W", "ignore", "-c", script, str(path)]
    subprocess.run(command, check=True, cwd=root, timeout=180)


def test_more_files_than_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are closed and opened again where there are many."""
    monkeypatch.setattr("readers.formats.arrayrecord.files._MAX_OPEN_FILES", 2)
    files = [write(tmp_path / f"{number}", [b"%d" % number] * 3) for number in range(6)]
    dataset = ArrayRecordDataset(files)
    wanted = random.Random(0).choices(range(18), k=90)

    assert [sample.fields["record"] for sample in dataset.fetch(wanted)] == [
        b"%d" % (index // 3) for index in wanted
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _: b"", "is empty"),
        (lambda _: b"no such thing", "no ArrayRecord file, or is cut off .*64KB"),
        (lambda _: b"no such thing " * 10_000, "no ArrayRecord file"),
        (lambda data: bytes(len(data)), "no ArrayRecord file"),
        (lambda data: data[:-1], "no ArrayRecord file, or is cut off"),
        (lambda data: data[: len(data) // 2], "no ArrayRecord file, or is cut off"),
    ],
)
def test_bad_files(tmp_path: Path, change: Callable[[bytes], bytes], message: str) -> None:
    """Nothing, something else, and a file without its end."""
    path = write(tmp_path / "a", noise(30))
    path.write_bytes(change(path.read_bytes()))
    assert_refused(message, [path], by=ArrayRecordDataset)


def test_bad_options(tmp_path: Path) -> None:
    """Features and files that are not there, and names of features where records have none."""
    path = write(tmp_path / "a", [example(image=b"i", label=1)])
    plain, none = write(tmp_path / "b", [b"text"]), write(tmp_path / "none", [])
    cases: list[tuple[list[Any], dict[str, Any], str]] = [
        ([none], {}, "holds no records"),
        ([tmp_path / "nowhere"], {}, "is not a file"),
        ([], {}, "list of shards is empty"),
        (["s3://bucket/a.array_record"], {}, "copy the file to this machine"),
        ([path], {"image": "photo"}, "no column 'photo' for image="),
        ([path], {"columns": ["x"]}, "no column 'x' for columns="),
        ([path], {"image": "label"}, "int64 values in the feature label"),
        ([plain], {"image": "image"}, "leave out image="),
    ]
    for source, options, message in cases:
        assert_refused(message, source, by=ArrayRecordDataset, **options)


def test_examples(tmp_path: Path) -> None:
    """Features become fields; a record that is no Example among Examples is a bad sample."""
    record = example(photo=b"photo", image=b"image", label=1, number=2, name=b"n", box=[0.5, 2.0])
    options = {"image": "photo", "label": "number", "key": "name", "columns": ["photo", "box"]}
    sample, bad = fetch_all(opened(tmp_path, [record, b"\x07"], **options))

    assert (sample.image, sample.label, sample.key) == (b"photo", 2, "a/n")
    assert {**sample.fields} == {"photo": b"photo", "box": b"[0.5,2.0]"}
    assert "tf.train.Example cannot be read" in bad.reason


def test_missing_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""
    path = write(tmp_path / "a", [b"text"])
    monkeypatch.setitem(sys.modules, "array_record.python.array_record_module", None)

    assert_refused(r"pip install 'gpu-aug\[arrayrecord\]'", [path], by=ArrayRecordDataset)
