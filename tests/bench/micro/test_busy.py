"""The benchmark beside a busy program: who computes when, and what is kept."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from bench.compare.timer import Rate
from bench.micro import busy
from bench.micro.busy import ALONE, CONSUMER, SECOND, kept_shares, measure


def test_threads_that_compute_are_there_in_their_turns_only() -> None:
    """A second thread runs in its turns and is gone after each."""
    seen = set()

    def computing() -> int:
        return sum(thread.name == "bench-compute" for thread in threading.enumerate())

    def next_images() -> torch.Tensor:
        seen.add(computing())
        time.sleep(0.001)
        return torch.empty(4, 0)

    rates = measure(next_images, seconds=0.05, rounds=2)

    assert seen == {0, 1}
    assert computing() == 0
    assert {name: len(rate.runs) for name, rate in rates.items()} == {
        ALONE: 2,
        CONSUMER: 2,
        SECOND: 2,
    }


def test_consumer_computes_before_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without anything that works ahead, a busy consumer takes 1.9 times as long per batch."""
    now = 0.0

    def next_images() -> torch.Tensor:
        nonlocal now
        now += 0.1
        return torch.empty(4, 0)

    def compute() -> int:
        nonlocal now
        now += 0.0009
        return 0

    monkeypatch.setattr(time, "perf_counter", lambda: now)
    monkeypatch.setattr(busy, "_compute", compute)
    monkeypatch.setattr(threading.Thread, "start", lambda _: None)
    monkeypatch.setattr(threading.Thread, "join", lambda _: None)

    kept = kept_shares(measure(next_images, seconds=5.0, rounds=1))

    assert kept[ALONE] == 1
    assert kept[CONSUMER] == pytest.approx(1 / 1.9, rel=0.02)
    assert kept[SECOND] == pytest.approx(1, rel=0.02)


def test_shares_are_taken_within_rounds() -> None:
    """A slow round that hits both leaves the share as it is."""
    rates = {ALONE: Rate((100.0, 10.0, 50.0)), SECOND: Rate((50.0, 5.0, 40.0))}

    assert kept_shares(rates) == {ALONE: 1.0, SECOND: 0.5}


@pytest.mark.long
def test_busy_command_writes_what_it_measured(photos: list[Path], tmp_path: Path) -> None:
    """The command measures the loader three ways, and its JSON has their rows."""
    listing = tmp_path / "photos.txt"
    listing.write_text("\n".join(map(str, photos)))
    command = [sys.executable, "-m", "bench", "bench", "busy", str(listing)]
    command += ["--seconds=0.2", "--rounds=2", "--batch-size=2", "--decoder=cpu"]
    command += ["--engine=albumentations", f"--json={tmp_path / 'result.json'}"]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "result.json").read_text())
    assert [row["name"] for row in result["rows"]] == [ALONE, CONSUMER, SECOND]
    assert (result["settings"]["engine"], result["settings"]["num_threads"]) == (
        "albumentations",
        1,
    )
    assert "gpu-aug/cpu+albumentations on cpu" in done.stdout
