"""YAML of datasets: what it refuses, and that every reader of YAML does."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from readers import SourceError
from readers.formats.energon.metadata import read_metadata
from readers.formats.hub.card import read_card
from readers.formats.yolo.config import read_config
from readers.storage.yaml_text import parse_yaml

MULTIPLIED = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join(9 * [f'*{before}'])}]\n"
    for before, name in zip("abcdef", "bcdefg", strict=True)
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("names: {0: cat, 1: dog}", {"names": {0: "cat", 1: "dog"}}),
        ("a: &a [1, 2]\nb: *a", {"a": [1, 2], "b": [1, 2]}),
        ("a: &a {x: 1}\nb: {<<: *a, y: 2}", {"a": {"x": 1}, "b": {"x": 1, "y": 2}}),
        ("", None),
    ],
)
def test_values(text: str, value: object) -> None:
    """References are read as long as they stand for little."""
    assert parse_yaml(text) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (MULTIPLIED, "references .* more than 100000 values"),
        ("a: &a [*a]", "references"),
        ("a: &a {b: *a}", "references"),
        ("[" * 5000 + "]" * 5000, "more than 100 deep"),
        ("!!python/object/apply:os.getcwd []", "constructor"),
        ("a: 1\na: 2", "duplicate key"),
        ("x: " + "y" * (16 << 20), "more than 16777216 characters"),
    ],
    ids=["multiplied", "itself", "mapping of itself", "deep", "tag", "twice", "long"],
)
def test_refused(text: str, reason: str) -> None:
    """In no time, and with a reason that is short."""
    began = time.process_time()
    with pytest.raises(ValueError, match=reason) as caught:
        parse_yaml(text)

    assert time.process_time() - began < 5
    assert len(str(caught.value)) < 300


def yolo(folder: Path) -> None:
    (folder / "images").mkdir()
    Image.new("RGB", (8, 8)).save(folder / "images" / "a.png")
    (folder / "data.yaml").write_text(
        f"{MULTIPLIED}path: .\ntrain: images\nval: images\nnames: *g\n"
    )
    read_config(folder / "data.yaml")


def energon(folder: Path) -> None:
    (folder / ".nv-meta").mkdir()
    (folder / ".nv-meta" / ".info.json").write_text(json.dumps({"shard_counts": {"a.tar": 1}}))
    (folder / ".nv-meta" / "split.yaml").write_text(f"{MULTIPLIED}exclude: *g\n")
    read_metadata(folder, None)


def card(folder: Path) -> None:
    read_card(f"---\n{MULTIPLIED}configs: *g\n---\n", str(folder))


@pytest.mark.parametrize("read", [yolo, energon, card])
def test_every_reader_of_yaml_refuses_it(read: Callable[[Path], None], tmp_path: Path) -> None:
    """There is one parser."""
    with pytest.raises(SourceError, match="references"):
        read(tmp_path)
