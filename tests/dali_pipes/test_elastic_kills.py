"""Ranks that die with kill -9 and come back in another number see every sample exactly once, in the global order."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dali_pipes.audit_compare import compare_histories
from dali_pipes.audit_history import History, read_history
from readers import Order, open_dataset
from tests.support import killed_ranks
from tests.support.adapters import write_tar

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(killed_ranks.__file__)


@pytest.fixture
def job(tmp_path: Path, jpeg: Callable[..., bytes]) -> Callable[[int], Path]:
    """Makes the folder of a job with so many samples."""

    def make(num_images: int, *, buckets: bool = False) -> Path:
        shapes = [(10, 10), (9, 20), (20, 9)] if buckets else [(10, 12)]
        if buckets:
            (tmp_path / "buckets").touch()
        pictures = [jpeg(*shapes[number % len(shapes)], seed=number) for number in range(12)]
        write_tar(tmp_path / "train.tar", [pictures[n % 12] for n in range(num_images)])
        (tmp_path / "audit").mkdir()
        open_dataset(tmp_path / "train.tar")  # makes the index
        return tmp_path

    return make


def run(command: list[str], folder: Path, timeout_seconds: int) -> None:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=timeout_seconds,
        check=False,
    )
    log = folder / "ranks.log"
    said = log.read_text()[-3000:] if log.exists() else ""
    assert done.returncode == 0, f"{done.stderr[-3000:]}\n{said}"


def trained(folder: Path) -> list[dict[str, Any]]:
    """What all ranks of all lives have trained on; the last line of a killed rank may be torn."""
    lines = []
    for path in sorted(folder.glob("trained-*.jsonl")):
        for text in path.read_text().split("\n"):
            try:
                lines.append(json.loads(text))
            except ValueError:
                continue
    return lines


def remaining(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of every life, what lies before the checkpoint that the next ones began with."""
    begun = {line["life"]: line["begun"] for line in lines}
    kept = [
        line
        for line in lines
        if all(line["done"] <= start for life, start in begun.items() if life > line["life"])
    ]
    return sorted(kept, key=lambda line: (line["done"], line["rank"]))


def check_exactly_once(folder: Path, lines: list[dict[str, Any]], length: int) -> int:
    """Compare what remains with the global order of all epochs, and return their number."""
    kept = remaining(lines)
    num_epochs = max(line["done"][0] for line in kept) + 1
    order = Order(length, seed=killed_ranks.SEED)
    for epoch in range(num_epochs):
        got = [index for line in kept if line["done"][0] == epoch for index in line["indices"]]
        assert sorted(got) == list(range(length))
        if not (folder / "buckets").exists():
            assert got == order.indices(epoch, np.arange(length)).tolist()
    uninterrupted = killed_ranks.make_loader(
        folder, batch_size=9, rank=0, world_size=1, audit=folder / "whole.jsonl"
    )
    for _ in range(num_epochs):
        for batch in uninterrupted:
            del batch
    histories = read_history(str(folder / "whole.jsonl")), read_history(str(folder / "audit"))
    found = compare_histories(*histories)
    assert len(found.epochs) == num_epochs
    assert all(epoch.same for epoch in found.epochs), "\n".join(found.lines())
    _check_that_the_audit_can_tell(histories)
    return num_epochs


def _check_that_the_audit_can_tell(histories: tuple[History, History]) -> None:
    """Negative control: without one of its lines the interrupted run is not the same."""
    one = histories[1].epochs[0].pop(3)
    assert not all(epoch.same for epoch in compare_histories(*histories).epochs)
    histories[1].epochs[0].insert(3, one)


@pytest.mark.long
@pytest.mark.parametrize("buckets", [False, True])
def test_many_kills_and_other_worlds(job: Callable[..., Path], buckets: bool) -> None:
    """22 kills at random moments, on 1, 2, 3, 4, 7 and 8 ranks: every epoch's samples once and in order."""
    length = 400
    folder = job(length, buckets=buckets)
    run([str(SCRIPT), "launch", str(folder)], folder, timeout_seconds=150)
    lives = [json.loads(line) for line in (folder / "lives.jsonl").read_text().splitlines()]
    assert len(lives) == killed_ranks.NUM_KILLS
    assert any(life["half_written"] for life in lives)
    assert {life["world_size"] for life in lives} == set(killed_ranks.WORLDS)

    lines = trained(folder)
    assert check_exactly_once(folder, lines, length) >= 2
    assert len(remaining(lines)) < len(lines)  # some steps were lost and done again
    resumed = {tuple(line["begun"]) for line in lines}
    assert len(resumed) > 5


@pytest.mark.long
def test_torchrun_restarts_killed_workers(job: Callable[[int], Path]) -> None:
    """Under torchrun --max-restarts two workers that kill themselves at given steps lose and double nothing."""
    length = 45
    folder = job(length)
    run(
        [
            *("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"),
            *("--max-restarts=2", "--monitor-interval=0.1"),
            *(str(SCRIPT), "torchrun", str(folder)),
        ],
        folder,
        timeout_seconds=120,
    )
    lines = trained(folder)

    assert {line["life"] for line in lines} == {0, 1, 2}
    assert {tuple(line["begun"]) for line in lines} == {(0, 0), (0, 12), (0, 24)}
    assert check_exactly_once(folder, lines, length) == 2
