"""Delta tables: what was removed or deleted is never read, and what was opened stays."""

import base64
import json
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("deltalake")

import deltalake
import pyarrow as pa

from readers import BadSample, open_dataset
from tests.support.entries import numbers_of
from tests.support.opening import assert_refused


def rows(ids: Sequence[int], **more: Any) -> Any:
    """Rows whose images are texts of their number."""
    images = pa.array([b"image %d" % number for number in ids], pa.binary())
    return pa.table({"id": pa.array(ids, pa.int64()), "image": images, **more})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Versions 0 to 2: rows 1 to 3, then 4, then without row 2, whose file stays behind."""
    made = tmp_path / "photos"
    deltalake.write_deltalake(str(made), rows([1, 2, 3]))
    deltalake.write_deltalake(str(made), rows([4]), mode="append")
    deltalake.DeltaTable(str(made)).delete("id = 2")
    return made


def log(path: Path, version: int) -> list[dict[str, Any]]:
    lines = (path / "_delta_log" / f"{version:020d}.json").read_text().splitlines()
    return [json.loads(line) for line in lines]


def commit(path: Path, version: int, *actions: dict[str, Any]) -> None:
    """Write a version by hand, for what deltalake does not write itself."""
    text = "".join(f"{json.dumps(action)}\n" for action in ({"commitInfo": {}}, *actions))
    (path / "_delta_log" / f"{version:020d}.json").write_text(text)


def by_its_library(path: Path, version: int) -> list[int]:
    table = deltalake.DeltaTable(str(path), version=version)
    found = deltalake.QueryBuilder().register("t", table).execute("select id from t")
    return sorted(pa.table(found)["id"].to_pylist())


@pytest.mark.parametrize("version", [0, 1, 2])
def test_each_version_has_its_rows(path: Path, version: int) -> None:
    """As deltalake's own engine tells them."""
    dataset = open_dataset(path, version=version)
    assert sorted(numbers_of(dataset)) == by_its_library(path, version)
    assert dataset.version == version
    assert len(list(path.glob("*.parquet"))) == 3


def test_what_is_opened_stays(path: Path) -> None:
    """Later commits are seen by who opens it then; a commit that changes no rows changes no fingerprint."""
    dataset = open_dataset(path)
    before = dataset.fetch(range(3))
    deltalake.DeltaTable(str(path)).alter.set_table_properties({"delta.appendOnly": "false"})
    assert open_dataset(path).fingerprint == dataset.fingerprint
    deltalake.write_deltalake(str(path), rows([5]), mode="overwrite")

    assert dataset.fetch(range(3)) == before
    assert sorted(numbers_of(open_dataset(path))) == [5]
    assert open_dataset(path, version=2).fingerprint == dataset.fingerprint
    assert open_dataset(path).fingerprint != dataset.fingerprint


def test_a_vacuum_makes_bad_samples(path: Path) -> None:
    """Files of an old version that are deleted; the error tells no path of this machine."""
    dataset = open_dataset(path, version=0)
    deltalake.DeltaTable(str(path)).vacuum(
        retention_hours=0, enforce_retention_duration=False, dry_run=False
    )
    assert sorted(numbers_of(open_dataset(path))) == [1, 3, 4]
    assert_refused(r"lacks part-.* of its version 0: open a newer one", path, version=0)
    bad = dataset.fetch(range(3))
    assert all(isinstance(one, BadSample) for one in bad)
    assert str(path.parent) not in bad[0].reason


def mark(deleted: Sequence[int]) -> dict[str, Any]:
    """A deletion vector in the log: a roaring bitmap, in Z85, by Delta's protocol."""
    bitmap = struct.pack("<IIHHI", 12346, 1, 0, len(deleted) - 1, 16)
    bitmap += struct.pack(f"<{len(deleted)}H", *deleted)
    content = struct.pack("<iqI", 1681511377, 1, 0) + bitmap
    text = base64.b85encode(content + bytes(-len(content) % 4))
    told = bytes.maketrans(_B85, _Z85)
    return {
        "storageType": "i",
        "pathOrInlineDv": text.translate(told).decode(),
        "sizeInBytes": len(content),
        "cardinality": len(deleted),
    }


_DIGITS = b"0123456789"
_SMALL, _LARGE = b"abcdefghijklmnopqrstuvwxyz", b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_B85 = _DIGITS + _LARGE + _SMALL + b"!#$%&()*+-;<=>?@^_`{|}~"
_Z85 = _DIGITS + _SMALL + _LARGE + b".-:+=^!/*?&<>()[]{}@%$#"


def test_deletion_vectors(tmp_path: Path) -> None:
    """Rows that they take out are left out, in their file and nowhere else."""
    path = tmp_path / "photos"
    allowed = {"delta.enableDeletionVectors": "true"}
    deltalake.write_deltalake(str(path), rows([1, 2, 3, 4]), configuration=allowed)
    deltalake.write_deltalake(str(path), rows([5, 6]), mode="append")
    [add] = [one["add"] for one in log(path, 0) if "add" in one]
    remove = {"path": add["path"], "deletionTimestamp": 1, "dataChange": True, "size": add["size"]}
    commit(path, 2, {"remove": remove}, {"add": {**add, "deletionVector": mark([0, 2])}})

    assert by_its_library(path, 2) == [2, 4, 5, 6]
    dataset = open_dataset(path)
    assert sorted(numbers_of(dataset)) == [2, 4, 5, 6]
    assert sorted(numbers_of(open_dataset(path, version=1))) == [1, 2, 3, 4, 5, 6]
    assert dataset.fingerprint != open_dataset(path, version=1).fingerprint
    before = dataset.fingerprint
    remove["deletionVector"] = mark([0, 2])
    commit(path, 3, {"remove": remove}, {"add": {**add, "deletionVector": mark([0, 3])}})
    assert by_its_library(path, 3) == [2, 3, 5, 6]
    assert sorted(numbers_of(open_dataset(path))) == [2, 3, 5, 6]
    assert open_dataset(path).fingerprint != before
    commit(path, 4, {"add": {**add, "deletionVector": mark([1])}})
    assert_refused(r"lists part-.* twice at version 4", path)


def test_partition_columns_are_fields(tmp_path: Path) -> None:
    """They are not in the files; odd values and none at all come back as they are."""
    values = ["a b/c", "50%", "ü", None]
    table = rows([0, 1, 2, 3], place=values, label=pa.array([3, 1, 2, 0]))
    folder = tmp_path / "two words"
    deltalake.write_deltalake(folder.as_uri(), table, partition_by=["place", "label"])
    dataset = open_dataset(folder)
    samples = dataset.fetch(range(4))

    found = {int(bytes(one.fields["id"])): (one.fields.get("place"), one.label) for one in samples}
    assert found == {
        number: (None if value is None else value.encode(), label)
        for number, (value, label) in enumerate(zip(values, [3, 1, 2, 0], strict=True))
    }
    assert dataset.column("label").tolist() == [one.label for one in samples]


def test_files_of_a_table_are_not_opened_without_it(path: Path) -> None:
    """Neither as a pattern, a list or a folder, nor below a folder of tables: removed ones are among them."""
    [file, *_] = path.glob("*.parquet")
    match = "belongs to the Delta table .*/photos, whose files also hold rows that were deleted"
    for source, options in (
        (path / "*.parquet", {}),
        ([file], {}),
        (path, {"format": "parquet"}),
        (path.parent, {"format": "parquet"}),
    ):
        assert_refused(match, source, **options)
    assert_refused("holds photos: give one of these folders", path.parent)


def test_refusals(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions that are not there, and tables that need what is not read."""
    assert_refused("has no version 7: the newest is version 2", path, version=7)
    assert_refused("'2' is no number", path, version="2")
    assert_refused(
        "is no Delta table: give the folder that holds _delta_log", path.parent, format="delta"
    )
    assert_refused("Delta table has no option 'snapshot'", path, snapshot=1)
    [told] = [one["metaData"] for one in log(path, 0) if "metaData" in one]
    told["configuration"] = {"delta.columnMapping.mode": "name"}
    commit(path, 3, {"metaData": told})
    assert_refused(r"maps its columns .* \(delta.columnMapping.mode=name\)", path)
    monkeypatch.setitem(sys.modules, "deltalake", None)
    assert_refused(r"deltalake.*pip install 'gpu-aug\[delta\]'", path)


@pytest.mark.parametrize(
    "name", ["../secret.parquet", "/etc/secret.parquet", "s3://b/secret.parquet"]
)
def test_a_table_names_no_file_outside(path: Path, name: str) -> None:
    """As shallow clones do."""
    [add] = [one["add"] for one in log(path, 1) if "add" in one]
    commit(path, 3, {"add": {**add, "path": name}})
    assert_refused("does not lie in its folder", path)


def test_a_replaced_file_is_noticed(path: Path) -> None:
    """It has another number of rows than the log tells."""
    parquet = pytest.importorskip("pyarrow.parquet")
    [add] = [one["add"] for one in log(path, 1) if "add" in one]
    parquet.write_table(rows([4, 4]), path / add["path"])
    assert_refused("holds 2 rows, and the table tells of 1", path)
