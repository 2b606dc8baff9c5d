"""Data whose samples have no label: what is told when it is opened, and of what data nothing is."""

import datetime
import decimal
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from readers import BadSample, SourceError, open_dataset
from tests.support.damage import flip
from tests.support.entries import fetch_all
from tests.support.labelled import picture, write_files, write_tar
from tests.support.opening import assert_refused, open_with_warning
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


def test_decimals_without_fraction(tmp_path: Path) -> None:
    """They are class numbers."""
    path = table(tmp_path, label=pa.array([ONE * 3, ONE * 7], pa.decimal128(10, 0)))
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
