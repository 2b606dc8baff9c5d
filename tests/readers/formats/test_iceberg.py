"""Iceberg tables: snapshots without a catalog, deleted rows, columns that changed their names, and what is refused."""

import json
import pickle
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyiceberg")

import pyarrow as pa
import pyarrow.parquet as parquet

from readers import open_dataset
from tests.support.entries import numbers_of
from tests.support.opening import assert_refused
from tests.support.writers.iceberg import new_table, newest

SCHEMA = pa.schema([("id", pa.int64()), ("image", pa.binary())])


def rows(ids: Sequence[int]) -> Any:
    """Rows whose images are texts of their number."""
    return pa.table({"id": ids, "image": [b"image %d" % number for number in ids]}, SCHEMA)


@pytest.fixture
def table(tmp_path: Path) -> Any:
    """Three snapshots: rows 1 to 3, then 4, then without row 2, whose file stays behind."""
    made = new_table(tmp_path, SCHEMA, {})
    made.append(rows([1, 2, 3]))
    made.append(rows([4]))
    made.delete("id = 2")
    return made


@pytest.fixture
def path(table: Any, tmp_path: Path) -> Path:
    del table
    return tmp_path / "photos"


def change(path: Path, **changes: Any) -> None:
    """Write the newest metadata again with other values, as the next one."""
    file = sorted((path / "metadata").glob("*.metadata.json"))[-1]
    told = {**json.loads(file.read_text()), **changes}
    (file.parent / f"{int(file.name[:5]) + 1:05d}-0.metadata.json").write_text(json.dumps(told))


def test_each_snapshot_has_its_rows(path: Path) -> None:
    """As a scan of pyiceberg tells them; a metadata file and its folder are the same table."""
    own = newest(path)
    numbers = [one.snapshot_id for one in own.metadata.snapshots]
    for number in numbers:
        found = own.scan(snapshot_id=number).to_arrow()["id"].to_pylist()
        assert sorted(numbers_of(open_dataset(path, snapshot=number))) == sorted(found)
    assert sorted(numbers_of(open_dataset(path))) == [1, 3, 4]
    assert open_dataset(path).version == numbers[-1]
    files = sorted((path / "metadata").glob("*.metadata.json"))
    assert sorted(numbers_of(open_dataset(files[1]))) == [1, 2, 3]
    assert len(list((path / "data").iterdir())) == 3


def test_what_is_opened_stays(table: Any, path: Path) -> None:
    """Later commits are seen by who opens it then."""
    dataset = open_dataset(path)
    before = dataset.fetch(range(3))
    table.append(rows([5]))

    assert dataset.fetch(range(3)) == before
    assert sorted(numbers_of(open_dataset(path))) == [1, 3, 4, 5]
    assert open_dataset(path, snapshot=dataset.version).fingerprint == dataset.fingerprint
    assert open_dataset(path).fingerprint != dataset.fingerprint


def test_a_table_that_was_moved(path: Path, tmp_path: Path) -> None:
    """Its files are those that lie with it, and the same samples have the same fingerprint."""
    before = open_dataset(path).fingerprint
    shutil.move(path, tmp_path / "elsewhere")
    dataset = open_dataset(tmp_path / "elsewhere")
    assert sorted(numbers_of(dataset)) == [1, 3, 4]
    assert dataset.fingerprint == before


def write_deletes(path: Path, content: str, deleted: dict[str, list[int]]) -> None:
    """Add a snapshot with a delete file to the newest metadata: pyiceberg reads these and writes none."""
    from pyiceberg.manifest import (
        DataFile,
        DataFileContent,
        FileFormat,
        ManifestContent,
        ManifestEntry,
        ManifestEntryStatus,
        ManifestWriterV2,
        write_manifest_list,
    )
    from pyiceberg.typedef import Record

    class DeleteWriter(ManifestWriterV2):
        def content(self) -> ManifestContent:
            return ManifestContent.DELETES

        @property
        def _meta(self) -> dict[str, str]:
            return {**super()._meta, "content": "deletes"}

    own = newest(path)
    location, number, sequence = own.metadata.location, 77, own.metadata.last_sequence_number + 1
    name = "data/deletes.parquet"
    pairs = [(file, row) for file, places in deleted.items() for row in places]
    told = pa.table({"file_path": [one[0] for one in pairs], "pos": [one[1] for one in pairs]})
    parquet.write_table(told, path / name)
    file = DataFile.from_args(
        content=DataFileContent[content],
        file_path=f"{location}/{name}",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=len(pairs),
        file_size_in_bytes=(path / name).stat().st_size,
        equality_ids=[1] if content == "EQUALITY_DELETES" else None,
    )
    file._spec_id = 0
    out = own.io.new_output(f"{location}/metadata/deletes.avro")
    with DeleteWriter(own.spec(), own.schema(), out, number, "null") as writer:
        writer.add_entry(
            ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED, snapshot_id=number, data_file=file
            )
        )
        manifest = writer.to_manifest_file()
    listed = f"{location}/metadata/snap-{number}.avro"
    manifests = own.current_snapshot().manifests(own.io)
    with write_manifest_list(
        2, own.io.new_output(listed), number, None, sequence, "null"
    ) as written:
        written.add_manifests([manifest, *manifests])
    last = own.metadata.snapshots[-1].model_dump(mode="json", by_alias=True)
    snapshot = {
        **last,
        "snapshot-id": number,
        "sequence-number": sequence,
        "manifest-list": listed,
    }
    before = [one.model_dump(mode="json", by_alias=True) for one in own.metadata.snapshots]
    change(
        path,
        **{
            "snapshots": [*before, snapshot],
            "current-snapshot-id": number,
            "last-sequence-number": sequence,
            "refs": {"main": {"snapshot-id": number, "type": "branch"}},
        },
    )


def test_position_deletes(path: Path) -> None:
    """Rows that a delete file takes out are left out, as pyiceberg leaves them out."""
    [first, *_] = [
        task.file for task in newest(path).scan().plan_files() if task.file.record_count == 2
    ]
    write_deletes(path, "POSITION_DELETES", {first.file_path: [1]})

    own = newest(path).scan().to_arrow()["id"].to_pylist()
    dataset = open_dataset(path)
    assert sorted(numbers_of(dataset)) == sorted(own) == [1, 4]
    assert dataset.version == 77
    (path / "data" / "deletes.parquet").write_bytes(b"PAR1")
    assert_refused(r"deletes.parquet, which deletes rows of .* cannot be read", path)


def test_equality_deletes_are_refused(path: Path) -> None:
    """They name values, which are not looked for."""
    write_deletes(path, "EQUALITY_DELETES", {"": [0]})
    assert_refused(r"deletes rows by their values \(equality deletes\), which is not read", path)


def test_columns_that_changed(table: Any, path: Path) -> None:
    """New ones are missing in old files, dropped ones are no fields, and renamed ones are refused."""
    with table.update_schema() as update:
        update.add_column("label", _integer())
    table.append(
        pa.table({**dict(zip(SCHEMA.names, rows([5]).columns, strict=True)), "label": [2]})
    )
    found = {int(bytes(one.fields["id"])): one.label for one in open_dataset(path).fetch(range(4))}
    assert found == {1: -1, 3: -1, 4: -1, 5: 2}
    with table.update_schema() as update:
        update.delete_column("label")
    dataset = open_dataset(path)
    assert {name for one in dataset.fetch(range(4)) for name in one.fields} == {"id", "image"}
    with table.update_schema() as update:
        update.rename_column("image", "photo")
    assert_refused(r"calls the column 'image' of data/.*parquet 'photo' since: rewrite", path)
    number = newest(path).metadata.snapshots[0].snapshot_id
    assert sorted(numbers_of(open_dataset(path, snapshot=number))) == [1, 2, 3]


def test_names_that_files_cannot_have(tmp_path: Path) -> None:
    """A column is called as pyiceberg's scan calls it, also where its files call it otherwise."""
    schema = pa.schema([("png", pa.binary()), ("mask.png", pa.binary()), ("my label", pa.int64())])
    made = new_table(tmp_path, schema, {})
    made.append(pa.table({"png": [b"a"], "mask.png": [b"m"], "my label": [3]}, schema))
    [file] = (tmp_path / "photos" / "data").iterdir()
    assert parquet.read_schema(file).names != schema.names
    [row] = newest(tmp_path / "photos").scan().to_arrow().to_pylist()

    dataset = open_dataset(tmp_path / "photos", label="my label")
    for one in (dataset, pickle.loads(pickle.dumps(dataset))):
        [sample] = one.where("label == 3").fetch([0])
        assert {**sample.fields, "my label": 3} == row
        assert sample.label == 3
    [masks] = open_dataset(tmp_path / "photos", columns=["mask.png"], image="mask.png").fetch([0])
    assert bytes(masks.image) == row["mask.png"]
    with made.update_schema() as update:
        update.rename_column("my label", "label")
    assert_refused(r"calls the column 'my_x20label' of .* 'label' since", tmp_path / "photos")


def test_a_column_that_was_dropped_and_added_again(table: Any, path: Path) -> None:
    """Its old values are not those of the new one."""
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("id")
    with table.update_schema() as update:
        update.add_column("id", _integer())
    assert_refused(r"has dropped the column 'id' of data/.* and added another one", path)


def _integer() -> Any:
    from pyiceberg.types import LongType

    return LongType()


def test_files_of_a_table_are_not_opened_without_it(path: Path) -> None:
    """Neither as a pattern nor as a folder: those of earlier snapshots are among them."""
    for source in (path / "data" / "*.parquet", path / "data", path.parent):
        assert_refused(
            r"belongs to the Iceberg table .*/photos, whose files", source, format="parquet"
        )


def test_nothing_outside_is_read_or_imported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a file elsewhere, nor a class that the table's properties name."""
    change(path, properties={"py-io-impl": "tests.support.nobody.Files"})
    assert sorted(numbers_of(open_dataset(path))) == [1, 3, 4]
    change(path, location=f"file://{path}/data")
    assert_refused("does not lie below its location", path)
    monkeypatch.setitem(sys.modules, "pyiceberg.table", None)
    assert_refused(r"pyiceberg.*pip install 'gpu-aug\[iceberg\]'", path)


def test_which_metadata_is_the_newest(path: Path) -> None:
    """That of the highest number, or of the hint that tables without a catalog have; two of a number are refused."""
    files = sorted((path / "metadata").glob("*.metadata.json"))
    for number, file in enumerate(files):
        shutil.copy(file, file.with_name(f"v{number}.metadata.json"))
        file.unlink()
    assert sorted(numbers_of(open_dataset(path))) == [1, 3, 4]
    (path / "metadata" / "version-hint.text").write_text("1\n")
    assert sorted(numbers_of(open_dataset(path))) == [1, 2, 3]
    (path / "metadata" / "version-hint.text").unlink()
    shutil.copy(path / "metadata" / "v3.metadata.json", path / "metadata" / "00003-a.metadata.json")
    assert_refused(r"no one newest metadata \(00003-a.metadata.json, v3", path)


def test_refusals(path: Path, tmp_path: Path) -> None:
    """What there is not, and what is damaged."""
    assert_refused(r"has no snapshot 7: the latest are [0-9]+, [0-9]+, [0-9]+$", path, snapshot=7)
    files = sorted((path / "metadata").glob("*.metadata.json"))
    assert_refused("has no snapshot yet", files[0])
    assert_refused(
        "is no Iceberg table: give the folder that holds metadata", tmp_path, format="iceberg"
    )
    [data, *_] = newest(path).scan().plan_files()
    Path(data.file.file_path.removeprefix("file://")).unlink()
    assert_refused(r"lacks data/.*parquet of its snapshot", path)
    for avro in (path / "metadata").glob("*-m*.avro"):
        avro.write_bytes(b"")
    assert_refused(r"snapshot [0-9]+ of .* cannot be read", path)
    files[-1].write_text("{}")
    assert_refused("is no metadata of an Iceberg table", path)
