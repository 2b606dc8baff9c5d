"""Shards that other tools keep account of: Megatron-Energon, wids and img2dataset."""

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from readers import BadSample, open_dataset
from tests.support.entries import fetch_all
from tests.support.opening import assert_refused, open_with_warning
from tests.support.tars import write_samples
from tests.support.writers.energon import prepare


def write_tar(path: Path, keys: list[str], **more: bytes) -> None:
    """A shard whose samples are their keys."""
    samples = {}
    for key in keys:
        text = json.dumps({"id": key, "tags": ["a", {"class": int(key[-1]) + 5}]}).encode()
        image, label = b"image " + key.encode(), key[-1:].encode()
        samples[key] = {"jpg": image, "cls": label, "json": text, **more}
    write_samples(path, samples)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three shards of three samples in two splits, prepared."""
    root = tmp_path / "prepared"
    root.mkdir()
    for shard in range(3):
        write_tar(root / f"s_00{shard}.tar", [f"{shard}{number}" for number in range(3)], txt=b"hi")
    prepare(root, {"train": ["s_{000..001}.tar"], "val": ["s_002.tar"]})
    return root


def keys(dataset: Any) -> list[str]:
    return [one.key.rpartition("/")[2] for one in fetch_all(dataset)]


class TestEnergon:
    def test_splits(self, folder: Path) -> None:
        """Those of split.yaml, never together."""
        assert keys(open_dataset(folder, split="train")) == ["00", "01", "02", "10", "11", "12"]
        assert keys(open_dataset(folder, split="validation")) == ["20", "21", "22"]
        assert_refused("holds the splits train, val, which are never one", folder)
        assert_refused("has no split 'test': its splits are train, val", folder, split="test")

    def test_the_metadata_is_not_needed(self, folder: Path) -> None:
        """Without it the folder is one of tars, and names of files tell no splits."""
        shutil.rmtree(folder / ".nv-meta")
        assert len(open_dataset(folder)) == 9

    def test_exclusions(self, folder: Path) -> None:
        """Of a shard, of a sample by its key as Energon compares it, and of several at once."""
        parts = {"train": ["s_00{0..2}.tar"]}
        prepare(folder, parts, exclude=["s_001.tar", "s_000.tar/{00..01}", "s_002.tar/22"])
        dataset = open_dataset(folder)
        assert keys(dataset) == ["02", "20", "21"]
        prepare(folder, parts, exclude=["s_001.tar", "s_000.tar/00", "s_002.tar/22"])
        assert open_dataset(folder).fingerprint != dataset.fingerprint
        for entries, match in (
            (["s_00{0..2}.tar"], "all shards of .* are excluded"),
            (["s_00{0..2}.tar/{0..2}{0..2}"], "no sample there has this key"),
            (
                [f"s_00{n}.tar/{n}{m}" for n in range(3) for m in range(3)],
                "all samples of .* are excluded",
            ),
            (["s_001.tar/1"], "excludes s_001.tar/1, and no sample there has this key: write keys"),
            (["s_001"], "excludes 's_001': write SHARD.tar"),
        ):
            prepare(folder, parts, exclude=entries)
            assert_refused(match, folder)

    def test_a_field_map(self, folder: Path) -> None:
        """The label may stand in JSON, alternatives are tried in turn, and what is stored stays."""
        fields = {
            "image": "png,jpg",
            "label": "json[tags][1][class]",
            "caption": "txt",
            "name": "json[id]",
            "nothing": "json[none]",
        }
        parts = {"train": ["s_000.tar"]}
        prepare(folder, parts, field_map=fields)
        dataset = open_dataset(folder)
        [sample] = dataset.fetch([2])

        assert (sample.label, sample.image_field, sample.image) == (7, "jpg", b"image 02")
        assert {name: bytes(data) for name, data in sample.fields.items()} == {
            "jpg": b"image 02",
            "cls": b"2",
            "json": b'{"id": "02", "tags": ["a", {"class": 7}]}',
            "txt": b"hi",
            "caption": b"hi",
            "name": b"02",
        }
        assert dataset.column("label").tolist() == [5, 6, 7]
        assert dataset.column("num_bytes").tolist() == [-1] * 3
        before = dataset.fingerprint
        prepare(folder, parts, field_map={**fields, "label": "cls"})
        assert open_dataset(folder).fingerprint != before
        prepare(folder, parts, field_map={"label": "txt[0]"})
        assert [type(one) for one in open_dataset(folder).fetch([0])] == [BadSample]
        prepare(folder, parts, field_map={"label": "json[id]", "image": "jpg"})
        assert open_dataset(folder).column("label").tolist() == [0, 1, 2]

    def test_a_tar_that_was_replaced(self, folder: Path) -> None:
        """It is read as it is, and told."""
        write_tar(folder / "s_001.tar", ["13", "14", "15"], longer=b"x" * 600)
        dataset = open_with_warning(
            r"of 2 shards 1 \(first s_001.tar\) was replaced after prepare", folder, split="train"
        )
        assert keys(dataset) == ["00", "01", "02", "13", "14", "15"]

    @pytest.mark.parametrize("length", [2, 4])
    def test_its_index_is_compared(self, folder: Path, length: int) -> None:
        """An .idx of as many samples that ends elsewhere, or of another number."""
        name = "s_000.tar.idx"
        wrong = struct.pack(f"<{length}Q", *range(length - 1), 512)
        (folder / name).write_bytes(wrong)
        open_with_warning("was replaced after prepare", folder, split="train")
        (folder / name).unlink()
        open_dataset(folder, split="train")

    def test_code_is_not_run(self, folder: Path) -> None:
        """A loader that dataset.yaml names is told of and left alone."""
        (folder / ".nv-meta" / "sample_loader.py").write_text("raise SystemExit('was run')\n")
        prepare(folder, {"train": ["s_000.tar"]}, sample_loader="sample_loader.py:load")
        match = r"makes samples by sample_loader.py:load, which is never run"
        assert len(open_with_warning(match, folder)) == 3

    def test_older_metadata(self, folder: Path) -> None:
        """.info.yaml, and no splits at all."""
        (folder / ".nv-meta" / ".info.json").unlink()
        (folder / ".nv-meta" / "split.yaml").unlink()
        (folder / ".nv-meta" / ".info.yaml").write_text("shard_counts:\n  s_001.tar: 3\n")
        assert keys(open_dataset(folder)) == ["10", "11", "12"]

    @pytest.mark.parametrize(
        ("name", "text", "match"),
        [
            (".info.json", "{}", "lists no shards: run energon prepare again"),
            (".info.json", "{", r"\.info\.json cannot be read"),
            (
                ".info.json",
                '{"shard_counts": {"../s.tar": 3}}',
                "names '../s.tar', which does not lie",
            ),
            ("split.yaml", "split_parts: [", r"split\.yaml cannot be read"),
            (
                "split.yaml",
                "split_parts: {train: [other.tar]}",
                "names other.tar, which .* does not know",
            ),
            (".info.json", '{"shard_counts": {"s_000.tar": "x"}}', r"at `\$\.shard_counts"),
            ("split.yaml", "split_parts: [a]", r"`array` - at `\$\.split_parts`"),
            ("split.json", "{}", "holds split.yaml and split.json: delete one"),
            (
                "dataset.yaml",
                "field_map: {image: [jpg]}",
                r"`str`, got `array` - at `\$\.field_map",
            ),
            ("dataset.yaml", "- 1", "Expected `object`, got `array`"),
        ],
    )
    def test_bad_metadata(self, folder: Path, name: str, text: str, match: str) -> None:
        """One sentence each."""
        (folder / ".nv-meta" / name).write_text(text)
        assert_refused(match, folder, split="train")


class TestWids:
    @pytest.fixture
    def index(self, folder: Path) -> Path:
        """An index as wids writes it, of two of three shards."""
        shutil.rmtree(folder / ".nv-meta")
        shards = [
            {"url": name, "nsamples": 3, "filesize": (folder / name).stat().st_size, "md5sum": ""}
            for name in ("s_002.tar", "s_000.tar")
        ]
        told = {"__kind__": "wids-shard-index-v1", "wids_version": 1, "shardlist": shards}
        (folder / "index.json").write_text(json.dumps(told))
        return folder / "index.json"

    def test_it_lists_shards(self, index: Path) -> None:
        """In its order, by the file and by its folder."""
        dataset = open_dataset(index)
        assert keys(dataset) == ["20", "21", "22", "00", "01", "02"]
        assert open_dataset(index.parent).fingerprint == dataset.fingerprint

    def test_elsewhere_it_is_taken_for_what_it_is(self, index: Path) -> None:
        """An index.json of another tool, where that one was asked for."""
        assert_refused(
            r"is an index of wids, .* give the shards as a pattern", index.parent, format="mds"
        )

    @pytest.mark.parametrize(
        ("shards", "match"),
        [
            ([], "lists no shards"),
            ([{"url": "../s.tar"}], "which does not lie in its folder"),
            ([{"url": "/s.tar"}], "which does not lie in its folder"),
            ([{"url": "pipe:cat s.tar"}], "which does not lie in its folder"),
            ([{"url": "none.tar"}], "lists none.tar, which is not there"),
            ([{"url": "s_000.tar", "filesize": 7}], "bytes, and index.json tells of 7"),
            ([{}], r"is a damaged index of wids \(KeyError"),
        ],
    )
    def test_bad_indexes(self, index: Path, shards: list[Any], match: str) -> None:
        """One sentence each."""
        index.write_text(json.dumps({"__kind__": "wids-shard-index-v1", "shardlist": shards}))
        assert_refused(match, index)


class TestImg2dataset:
    @pytest.fixture
    def downloaded(self, tmp_path: Path) -> Path:
        """A folder as img2dataset leaves it: a tar, a table of what was asked for, and statistics of each shard."""
        pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        root = tmp_path / "downloaded"
        root.mkdir()
        for shard in range(2):
            write_tar(root / f"0000{shard}.tar", [f"0000{shard}000{n}" for n in (0, 2)])
            parquet.write_table(pa.table({"key": ["2", "1", "0"]}), root / f"0000{shard}.parquet")
            told = {"count": 3, "successes": 2, "failed_to_download": 1, "status_dict": {}}
            (root / f"0000{shard}_stats.json").write_text(json.dumps(told))
        return root

    def test_the_tars_are_the_data(self, downloaded: Path) -> None:
        """The tables beside them have another order, and rows without an image."""
        assert keys(open_dataset(downloaded)) == [
            "000000000",
            "000000002",
            "000010000",
            "000010002",
        ]

    def test_a_shard_that_is_not_finished(self, downloaded: Path) -> None:
        """Its statistics are written last."""
        (downloaded / "00001_stats.json").unlink()
        assert_refused(
            r"1 of 2 shards that img2dataset has not finished \(00001.tar has no", downloaded
        )
        assert len(open_dataset([downloaded / "00000.tar"])) == 2
