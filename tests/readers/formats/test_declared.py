"""Shards that are missing or too short are noticed by numbers in names and by counts in files beside them."""

import json
from pathlib import Path

import pytest

from readers.formats.declared import missing_shards
from tests.support.opening import warnings_of
from tests.support.tars import write_samples


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
