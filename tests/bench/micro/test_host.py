"""The benchmark of the host's part of the GPU path: whose time is counted, for what."""

import json
import time
from pathlib import Path

import numpy as np
import pytest

from bench.micro.host import LEFT_OUT, HostRow
from bench.micro.host_loader import HostLoader, Meter, without_gpu
from gpu_aug import HorizontalFlip, Normalize, RandomResizedCrop, Recipe
from readers import open_dataset
from tests.support.commands import Run

RECIPE = Recipe([RandomResizedCrop(24), HorizontalFlip(), Normalize()])


def test_parts_within_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a part within another one counts for the inner one alone."""
    now = iter([0, 10, 12, 15, 19, 40])
    monkeypatch.setattr(time, "thread_time_ns", lambda: next(now))
    meter = Meter()

    with meter.part("outer"):
        with meter.part("inner"):
            pass
        with meter.part("inner"):
            pass

    assert dict(meter.nanoseconds) == {"inner": 6, "outer": 34}


def test_medians_are_those_of_rounds() -> None:
    """Of the sums of each round; reading is told, but not summed."""
    rounds = [
        {"loop": {"push": push, "the rest": 1.0}, "worker": {"read": 100.0, "draws": draws}}
        for push, draws in ((1.0, 7.0), (2.0, 5.0), (30.0, 5.0))
    ]

    told = HostRow("plain folder", 4, False, rounds).to_dict()

    assert (told["loop_us"], told["threads_us"], told["all_us"]) == (3.0, 5.0, 9.0)
    assert told["threads_parts_us"] == {"draws": 5.0, "read": 100.0}


@pytest.mark.needs_dali
def test_who_makes_what_dali_gets(photos: list[Path], tmp_path: Path) -> None:
    """The thread that reads, or the one of the training loop where that is asked for."""
    pytest.importorskip("triton")
    for number in range(8):
        (tmp_path / f"{number}.jpg").symlink_to(photos[number])
    dataset = open_dataset(tmp_path)
    made = {}
    with without_gpu():
        for in_push in (False, True):
            loader = HostLoader(dataset, RECIPE, batch_size=4, in_push=in_push)
            made[in_push] = loader.run(6)
            loader.close()

    assert ["prepare" in made[False][thread] for thread in ("loop", "worker")] == [False, True]
    assert ["prepare" in made[True][thread] for thread in ("loop", "worker")] == [True, False]
    for parts in made.values():
        assert {"DALI: feed_input", "DALI: share_outputs", "engine"} <= parts["loop"].keys()
        assert {"read", "headers", "draws", "give back"} <= parts["worker"].keys()
        assert np.isfinite(list(parts["loop"].values())).all()


@pytest.mark.long
@pytest.mark.needs_dali
def test_command(run: Run, photos: list[Path], tmp_path: Path) -> None:
    """Every form of the data has its rows, and what is not in them is named."""
    pytest.importorskip("triton")
    result = tmp_path / "result.json"

    code, said, _ = run(
        "bench", "host", "--quick", "--data", photos[0].parent, "--json", str(result)
    )

    told = json.loads(result.read_text())
    assert code == 0
    forms = ("plain folder", "tiled folder", "plain tar", "tiled tar")
    assert [row["data"] for row in told["rows"]] == [form for form in forms for _ in range(3)]
    assert [row["decoder"] for row in told["rows"]] == ["dali", "dali", "cuda"] * 4
    assert told["left_out"] == list(LEFT_OUT)
    assert all(part in said for part in LEFT_OUT)
