"""What is said when data is opened: labels that are missing, shards that are, and files that are not read."""

import datetime
import decimal
import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from readers import BadSample, SourceError, open_dataset
from readers.formats.declared import missing_shards
from tests.support.annotated import put
from tests.support.damage import flip
from tests.support.entries import fetch_all
from tests.support.labelled import picture, write_files, write_tar
from tests.support.one_other import jpeg
from tests.support.opening import assert_refused, open_with_warning, warnings_of
from tests.support.tars import write_samples

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
ONE = decimal.Decimal(1)


def table(folder: Path, **columns: Any) -> Path:
    pq.write_table(pa.table({"image": [picture()] * 2, **columns}), folder / "a.parquet")
    return folder / "a.parquet"


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array([[0, 2], [1]]), "list<"),
        (pa.array([{"id": 1}] * 2), "struct<id"),
        (pa.array([b"1", b"2"]), "binary"),
        (pa.array([datetime.date(2020, 1, 1)] * 2), "date32"),
        (pa.array([ONE / 4] * 2), "decimal128"),
        (pa.nulls(2), "null"),
    ],
    ids=str,
)
def test_columns_of_another_type(tmp_path: Path, column: Any, kind: str) -> None:
    """The warning says what the column holds; labels= takes its place, and label= refuses it."""
    path = table(tmp_path, label=column)
    dataset = open_with_warning(f"no sample of .* has a label .*'label' holds {kind}", path)
    assert dataset.column("label").tolist() == [-1, -1]
    assert open_dataset(path, labels=[4, 5]).column("label").tolist() == [4, 5]
    if kind != "null":
        assert_refused("which is no class number", path, label="label")


@pytest.mark.parametrize(
    "column", [pa.array([ONE * 3, ONE * 7], pa.decimal128(10, 0)), pa.array([3.0, 7.0])], ids=str
)
def test_numbers_without_fraction(tmp_path: Path, column: Any) -> None:
    """Decimals and floats are class numbers."""
    path = table(tmp_path, label=column)
    assert [one.label for one in open_dataset(path)] == [3, 7]


def test_a_damaged_page_of_labels(tmp_path: Path) -> None:
    """Its rows are bad samples, and no selection by labels goes on without them."""
    labels = pa.table({"image": [picture()] * 20, "label": range(20)})
    options: dict[str, Any] = {"row_group_size": 10, "use_dictionary": False}
    path = tmp_path / "a.parquet"
    pq.write_table(labels, path, write_page_checksum=True, **options)
    told = pq.read_metadata(path).row_group(1).column(1)
    dataset = open_dataset(flip(path, told.data_page_offset + told.total_compressed_size - 4))

    bad = [entry.index for entry in fetch_all(dataset) if isinstance(entry, BadSample)]
    assert bad == list(range(10, 20))
    with pytest.raises(SourceError, match=r"a\.parquet/10 .*'label' of row group 1 .* 10 of 20"):
        dataset.where("label == 3")
    assert dataset.take(10).column("label").tolist() == list(range(10))


@pytest.mark.parametrize(
    "fields", [{"json": b"{}"}, {"txt": b"a cat"}, {"mask.png": picture()}], ids=str
)
def test_data_for_something_else(tmp_path: Path, fields: dict[str, bytes]) -> None:
    """Where samples have targets or texts nobody misses labels; but where some have labels, others are missed."""
    both = {"a": {"png": picture(), **fields}}
    open_dataset(write_samples(tmp_path / "a.tar", both))
    both["b"] = {"png": picture(), "cls": b"1"}
    open_with_warning("1 of 2 samples of .* have no label", write_samples(tmp_path / "b.tar", both))


@pytest.mark.parametrize(
    ("document", "key", "label"),
    [
        ({"label": 1}, "label", 1),
        ({"Class": "cat"}, "Class", 0),
        ({"cls": [2]}, "cls", [2]),
        ({"boxes": [], "labels": []}, "", -1),
    ],
    ids=str,
)
def test_a_label_in_json(tmp_path: Path, document: dict[str, Any], key: str, label: Any) -> None:
    """It is not read, and the warning names the key and the call that reads it; labels of boxes are none."""
    fields = {"png": picture(), "json": json.dumps(document).encode()}
    path = write_samples(tmp_path / "a.tar", {"a": fields, "b": fields})
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        dataset = open_dataset(path)
        assert [one.label for one in open_dataset(path, format="stream")] == [-1, -1]
    texts = [str(one.message) for one in said]
    assert [f"{key!r} in the field json" in text for text in texts] == [True] * (2 if key else 0)
    if key:
        call = texts[0].partition("one: ")[2].partition(" does; ")[0]
        dataset = eval(call, {"dataset": dataset, "json": json})
    assert [np.asarray(one.label).tolist() for one in dataset] == [label] * 2


def test_boxes_of_a_manifest(tmp_path: Path) -> None:
    """The labels of its boxes are no labels of its images, and none of these are missed."""
    [name] = write_files(tmp_path, 1)
    line = {"image": name, "boxes": [[0, 0, 4, 4]], "labels": [1]}
    (tmp_path / "a.jsonl").write_text(json.dumps(line))
    assert open_dataset(tmp_path / "a.jsonl")[0].label == -1
    line["bbox"] = line.pop("boxes")
    (tmp_path / "b.jsonl").write_text(json.dumps(line))
    open_with_warning(
        "column 'bbox' in lines without 'boxes', .* write \"boxes\"", tmp_path / "b.jsonl"
    )


def test_labels_that_are_all_there(tmp_path: Path) -> None:
    """Nothing is said of them, nor of labels that are given."""
    np.save(tmp_path / "a.npy", np.zeros((2, 8, 8, 3), np.uint8))
    open_dataset(write_tar(tmp_path, [b"0", b"1"]))
    open_dataset(tmp_path / "a.npy", labels=[1, 0])


def shard(path: Path, count: int = 2) -> str:
    samples = {f"{number}": {"jpg": b"1", "cls": b"1"} for number in range(count)}
    return write_samples(path, samples)


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (["a-000.tar", "a-001.tar", "a-003.tar"], "a-002.tar"),
        (["a-7.tar", "a-8.tar"], ""),
        (["a-00000-of-00003.tar", "a-00002-of-00003.tar"], "a-00001-of-00003.tar"),
        (["a-00001-of-00003.tar", "a-00003-of-00003.tar"], "a-00002-of-00003.tar"),
        (["a-00000-of-00002.tar"], "a-00001-of-00002.tar"),
        (["t-00000-of-00001", "v-00001-of-00002"], "v-00000-of-00002"),
        (["n01440764.tar", "n01443537.tar", "n01484850.tar"], ""),
        (["20240101120000.tar", "20250101120000.tar"], ""),
        (["train.tar", "val.tar"], ""),
    ],
)
def test_numbers_in_names(names: list[str], missing: str) -> None:
    found = missing_shards([f"/data/{name}" for name in names], {})

    assert len(found) == bool(missing)
    assert not found or f"({missing})" in found[0]


def test_whoever_names_each_shard_has_chosen(tmp_path: Path) -> None:
    names = [shard(tmp_path / f"a-{number}.tar") for number in (0, 1, 3)]

    assert "(a-2.tar)" in warnings_of(tmp_path)[0]
    assert "(a-2.tar)" in warnings_of(f"{tmp_path}/*.tar")[0]
    assert warnings_of(names) == warnings_of(names[0]) == []
    assert warnings_of(f"{tmp_path}/a-{{0..1}}.tar") == []


@pytest.mark.parametrize(
    ("name", "declared"),
    [
        ("manifest.json", {"shards": [{"name": f"a-{n}.tar", "samples": 2} for n in range(2)]}),
        ("index.json", {"shardlist": [{"url": f"a-{n}.tar", "nsamples": 2} for n in range(2)]}),
    ],
)
def test_counts_of_files_beside(tmp_path: Path, name: str, declared: dict[str, object]) -> None:
    names = [shard(tmp_path / "a-0.tar"), shard(tmp_path / "a-1.tar")]
    (tmp_path / name).write_text(json.dumps(declared))
    assert warnings_of(names) == []
    shard(tmp_path / "a-1.tar", 1)
    [text] = warnings_of(names)

    assert f"{name} declares 2 samples in a-1.tar, and 1 are there" in text


def test_a_manifest_lists_the_shards(tmp_path: Path) -> None:
    """One that it lists and that is not there is missing, and a hole in the numbers is none."""
    names = [f"a-{number}.tar" for number in (0, 2, 3)]
    for name in names:
        shard(tmp_path / name)
    declared = {"shards": [{"name": name, "samples": 2} for name in names]}
    (tmp_path / "manifest.json").write_text(json.dumps(declared))
    assert warnings_of(tmp_path) == []
    (tmp_path / "a-3.tar").unlink()

    assert "(a-3.tar)" in warnings_of(tmp_path)[0]


def test_a_file_of_another_program_declares_nothing(tmp_path: Path) -> None:
    name = shard(tmp_path / "a.tar")
    for text in ("", "[]", '{"shards": 3}', '{"shards": [{"name": "a.tar", "samples": "many"}]}'):
        (tmp_path / "manifest.json").write_text(text)
        assert warnings_of(name) == []


AVIF = b"\0\0\0\x18ftypavif\0\0\0\0mif1miaf" + bytes(40)


def fill(folder: Path, files: dict[str, tuple[int, bytes]]) -> Path:
    """Write numbers of files: by ending, how many and what is in them."""
    named = [(f"{one:04}{ending}", text) for ending, (n, text) in files.items() for one in range(n)]
    return put(folder, dict(named))


def remark(folder: Path, **options: str) -> str:
    return " ".join(warnings_of(folder, **options))


def test_counts_are_true(tmp_path: Path) -> None:
    """Of all folders at any depth, more than 1000 names of one folder, and more than four kinds."""
    photos = {".jpg": (1100, jpeg(0)), ".jxr": (1200, b"")}
    fill(tmp_path / "cat", photos)
    fill(tmp_path / "cat" / "deep" / "deeper", {".jpg": (1, jpeg(0)), ".jxr": (30, b"")})
    fill(tmp_path / "dog", {".jpg": (2, jpeg(0)), ".exr": (3, b""), ".tga": (2, b"")})
    fill(tmp_path / "dog", {".jfif": (4, jpeg(0)), ".dng": (1, b""), ".psd": (1, b"")})
    found = remark(tmp_path)

    assert "(1230 of .jxr, 4 of .jfif, 3 of .exr, 2 of .tga, and files of 2 other kinds)" in found
    assert (
        "1241 of 2344 files are not read as images; give those of a format that is read its"
        in found
    )


def test_content_decides(tmp_path: Path) -> None:
    """Pictures without an ending or with another one are counted; texts, tables and links that lead nowhere are not."""
    fill(
        tmp_path / "cat",
        {
            ".jpg": (2, jpeg(0)),
            "": (2, jpeg(0)),
            ".bin": (1, AVIF),
            ".dat": (1, b"\0\0\0\x18ftypisom"),
        },
    )
    fill(
        tmp_path / "cat",
        {".txt": (3, b"BMW and P1 photos"), ".csv": (1, b"The free table"), ".db": (1, bytes(600))},
    )
    (tmp_path / "cat" / "LICENSE").write_text("free software")
    (tmp_path / "cat" / "gone.raw2").symlink_to("nowhere")
    os.mkfifo(tmp_path / "cat" / "pipe.x")
    found = remark(tmp_path)

    assert "3 of no ending" in found or "2 of no ending" in found
    assert "1 of .bin" in found
    assert "1 of .dat" in found
    assert ".txt" not in found
    assert ".csv" not in found


def test_nothing_is_said_of_what_belongs_to_images(tmp_path: Path) -> None:
    """Nor of hidden files."""
    fill(tmp_path / "cat", {".jpg": (2, jpeg(0)), ".json": (2, b"{}"), ".mask.png": (2, b"")})
    (tmp_path / "cat" / ".hidden.jxr").write_bytes(AVIF)

    assert "left out" not in remark(tmp_path)


def test_a_folder_of_nothing_else_names_them(tmp_path: Path) -> None:
    """The error says that there are pictures, and of which kind."""
    fill(tmp_path / "cat", {".jxr": (3, AVIF)})
    assert_refused(r"holds no images.*3 of \.jxr", tmp_path, format="folder")
