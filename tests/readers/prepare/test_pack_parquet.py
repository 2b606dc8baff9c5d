"""Packing into Parquet, as the Hugging Face hub keeps images."""

from pathlib import Path

import pytest

from readers import Sample, open_dataset
from tests.support.commands import Run
from tests.support.packed import (
    Jpeg,
    by_webdataset,
    samples_of,
)
from tests.support.tars import write_tar


def test_parquet(run: Run, source: Path, tmp_path: Path) -> None:
    """Parquet shards hold the samples as the hub keeps images, and keep to their size; our reader finds the same."""
    parquet = pytest.importorskip("pyarrow.parquet")
    out = tmp_path / "out"
    code, printed, _ = run("pack", source, out, "--format", "parquet", "--shard-size", "30kB")
    shards = sorted(out.glob("*.parquet"))
    rows = [row for shard in shards for row in parquet.read_table(shard).to_pylist()]
    folder = open_dataset(source)
    samples = [entry for entry in folder.fetch(range(24)) if isinstance(entry, Sample)]

    assert code == 0
    assert f"24 samples in {len(shards)} shards" in printed
    assert len(shards) >= 2
    assert [row["image"]["bytes"] for row in rows] == [sample.image for sample in samples]
    assert [row["label"] for row in rows] == [sample.label for sample in samples]
    assert [row["key"] for row in rows][:2] == ["cats/0", "cats/1"]
    assert next(row for row in rows if row.get("json"))["json"] == b'{"boxes": []}'
    assert all(shard.stat().st_size < 50_000 for shard in shards)
    assert [(one.label, one.image) for one in samples_of(out)] == [
        (sample.label, sample.image) for sample in samples
    ]
    assert open_dataset(out).class_names == folder.class_names


def test_parquet_is_what_the_hub_reads(run: Run, source: Path, tmp_path: Path) -> None:
    """Hugging Face datasets sees images, and classes with their names."""
    datasets = pytest.importorskip("datasets")
    run("pack", source, tmp_path / "out", "--format", "parquet")
    [shard] = (tmp_path / "out").glob("*.parquet")
    found = datasets.Dataset.from_parquet(str(shard), cache_dir=str(tmp_path / "cache"))

    assert found.features["label"].names == ["cats", "dogs", "owls"]
    assert found[3]["image"].size == (90, 60)


def test_parquet_is_packed_anew(run: Run, source: Path, tmp_path: Path) -> None:
    """From Parquet to Parquet and to tar, keys, labels and columns stay as they are."""
    parquet = pytest.importorskip("pyarrow.parquet")
    run("pack", source, tmp_path / "a", "--format", "parquet")
    run("pack", tmp_path / "a", tmp_path / "b", "--format", "parquet")
    run("pack", tmp_path / "a", tmp_path / "c")
    one, other = (
        parquet.read_table(tmp_path / name / "shard-000000.parquet").to_pylist() for name in "ab"
    )

    assert one == other
    assert [sample["__key__"] for sample in by_webdataset(tmp_path / "c")] == [
        row["key"] for row in one
    ]


def test_keys_are_unique_within_a_parquet_shard(run: Run, tmp_path: Path, jpeg: Jpeg) -> None:
    """Equal stems and names that are not UTF-8 are packed, each with a key of its own."""
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "source" / "\udcfe").mkdir(parents=True)
    for name in ("\udcfe/x.jpg", "\udcfe/x.png", "\udcfe/\udcff.jpg"):
        (tmp_path / "source" / name).write_bytes(jpeg(20, 30))
    code, _, _ = run("pack", tmp_path / "source", tmp_path / "out", "--format", "parquet")
    rows = parquet.read_table(tmp_path / "out" / "shard-000000.parquet").to_pylist()

    assert code == 0
    assert [row["key"] for row in rows] == ["\\udcfe/x", "\\udcfe/x-2", "\\udcfe/\\udcff"]
    assert len(samples_of(tmp_path / "out")) == 3


def test_what_parquet_cannot_hold_is_left_out_by_name(
    run: Run, source: Path, tmp_path: Path
) -> None:
    """A sample without an image, which would not be read back, is a bad sample."""
    pytest.importorskip("pyarrow")
    image = (source / "cats" / "0.jpg").read_bytes()
    write_tar(tmp_path / "more.tar", [("a.json", b""), ("z0.jpg", image), ("z0.cls", b"3")])

    _, printed, _ = run("pack", tmp_path / "more.tar", tmp_path / "out", "--format", "parquet")

    assert "it has no image, which a Parquet shard needs" in printed
    assert [sample.label for sample in samples_of(tmp_path / "out")] == [3]
