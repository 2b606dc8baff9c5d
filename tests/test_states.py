"""What earlier versions stored outside a process is taken, and their runs go on with the same samples.

Each folder ``tests/data/states-VERSION`` was written by that version; see tests/support/states.py.
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from dali_pipes import Monitoring, StateMismatchError
from gpu_aug import Recipe
from readers import open_dataset
from readers.prepare import load_plan, merge
from readers.video.index import VideoIndex
from tests.support.commands import Run
from tests.support.states import EXACT, RUNS, STOPPED_AFTER, batches, followed, loader, tars

STORED = sorted((Path(__file__).parent / "data").glob("states-*"))


@pytest.fixture(params=STORED, ids=lambda folder: folder.name)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of what a version stored; its indexes are younger than its data, as that version left them."""
    folder = tmp_path / "states"
    shutil.copytree(request.param, folder)
    for path in folder.rglob("*"):
        age_seconds = 100 if ".gpuaug-" in path.name else 200
        changed = path.stat().st_mtime - age_seconds
        os.utime(path, (changed, changed))
    return folder


def runs(folder: Path) -> dict[str, Any]:
    """The states and what came after them."""
    told: dict[str, Any] = json.loads((folder / "states.json").read_text())
    return told


def test_there_are_some() -> None:
    """Those of the first version, with every kind of run."""
    assert STORED[0].name == "states-0.1"
    assert runs(STORED[0]).keys() == RUNS.keys()


@pytest.mark.parametrize("name", RUNS)
def test_a_run_goes_on(stored: Path, name: str) -> None:
    """With the samples, and where those are given by the image alone the pixels, that it would have gone on with."""
    told = runs(stored)[name]
    run = RUNS[name](stored / "data")
    run.load_state_dict(told["state"])

    assert followed(batches(run), name) == told["rest"]


def test_another_seed_is_another_run(stored: Path) -> None:
    """Negative control: neither is its state taken, nor are its samples those."""
    told = runs(stored)["global"]
    other = loader(tars(stored / "data"), seed=8)

    with pytest.raises(StateMismatchError, match="seed is 7 in the state and 8 here"):
        other.load_state_dict(told["state"])
    other.load_state_dict({**other.state_dict(), "epoch": told["state"]["epoch"]})
    assert followed(batches(other), "global") != told["rest"]


def test_indexes_are_taken(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Videos are not scanned again; shards are, whose indexes say less than those of today, and stay the same data."""

    def scan(*_given: object, **_named: object) -> None:
        pytest.fail("it was scanned anew")

    assert len(tars(stored / "data")) == 14
    monkeypatch.setattr("readers.video.index._build", scan)

    assert len(VideoIndex.open(open_dataset(stored / "data" / "videos"))) == 2


def test_recipes_are_read(stored: Path) -> None:
    """Files of recipes give the recipes they gave: their fingerprints are the same."""
    prints = json.loads((stored / "fingerprints.json").read_text())

    assert {name: Recipe.load(stored / name).fingerprint for name in prints} == prints


def test_shards_of_a_plan_are_merged(stored: Path) -> None:
    """A plan whose shards are all made is brought to its end, and gives a dataset."""
    plan = load_plan(stored / "packed")
    merged = merge(plan)

    assert merged.num_samples == 14
    assert len(open_dataset(stored / "packed" / "shard-*.tar")) == 14


def test_an_audit_is_compared(stored: Path, tmp_path: Path, run: Run) -> None:
    """What this version hands over from the beginning is what that one wrote down."""
    again = loader(
        tars(stored / "data"), EXACT, monitoring=Monitoring(audit=tmp_path / "again.jsonl")
    )
    for _number, _batch in zip(range(STOPPED_AFTER), batches(again), strict=False):
        pass

    code, said, _ = run("audit", str(stored / "audit.jsonl"), str(tmp_path / "again.jsonl"))
    assert (code, "same" in said) == (0, True), said
