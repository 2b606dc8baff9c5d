"""Attempts of a run are told apart by their names: repeated steps count once, whatever the clocks say."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.cli import main
from dali_pipes import Loader
from dali_pipes.audit_check import check_audit
from dali_pipes.audit_compare import compare_audits
from dali_pipes.errors import StateMismatchError
from gpu_aug import RandomResizedCrop, Recipe
from tests.support.adapters import MemoryDataset

LENGTH = 48
GLOBAL_BATCH = 12


@pytest.fixture(scope="module")
def dataset(jpeg: Callable[..., bytes]) -> MemoryDataset:
    return MemoryDataset([jpeg(12, 14, seed=number) for number in range(3)], LENGTH)


def start(dataset: MemoryDataset, world_size: int, audit: Path, state: Any = None) -> list[Loader]:
    """Start a job on so many ranks, which go on from a state."""
    ranks = [
        Loader(
            dataset,
            Recipe([RandomResizedCrop(8)]),
            batch_size=GLOBAL_BATCH // world_size,
            device="cpu",
            decoder="cpu",
            num_threads=1,
            rank=rank,
            world_size=world_size,
            audit=audit,
        )
        for rank in range(world_size)
    ]
    for rank in ranks:
        if state:
            rank.load_state_dict(state)
    return ranks


def take(ranks: list[Loader], steps: int) -> Any:
    """Let all ranks take so many steps of their next loop, and return the state."""
    for _, *_batches in zip(range(steps), *ranks, strict=False):
        pass
    return ranks[0].state_dict()


def turn_clocks_back(folder: Path) -> None:
    """Let what came later seem to have come earlier."""
    for path in folder.rglob("*.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for number, line in enumerate(lines):
            if "time" in line:
                line["time"] = -number
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


@pytest.fixture
def whole(dataset: MemoryDataset, tmp_path: Path) -> str:
    """The audit of one epoch on one rank, without a break."""
    take(start(dataset, 1, tmp_path / "whole.jsonl"), 4)
    return str(tmp_path / "whole.jsonl")


def killed_run(dataset: MemoryDataset, folder: Path, *, machines: bool) -> Path:
    """Three ranks end in the middle of an epoch, two that go on end as well, and one finishes.

    Both go on from the same state. With `machines` each attempt leaves its files on another machine.
    """

    def where(attempt: int) -> Path:
        path = folder / "run" / (f"machine-{attempt}" if machines else "")
        path.mkdir(parents=True, exist_ok=True)
        return path / "rank-{rank}.jsonl"

    first = start(dataset, 3, where(0))
    loops = [iter(rank) for rank in first]
    for loop in loops:
        next(loop)
    state = first[0].state_dict()
    for loop in [*loops, *loops]:
        next(loop)
    take(start(dataset, 2, where(1), state), 2)
    take(start(dataset, 1, where(2), state), 3)
    turn_clocks_back(folder / "run")
    if machines:  # as somebody collects them
        for path in sorted((folder / "run").glob("machine-*/*.jsonl")):
            path.rename(folder / "run" / f"{path.parent.name}-{path.name}")
    return folder / "run"


@pytest.mark.parametrize("machines", [False, True], ids=["shared folder", "folders of machines"])
def test_clocks_decide_nothing(
    dataset: MemoryDataset, tmp_path: Path, whole: str, machines: bool
) -> None:
    """After two restarts from one state each sample counts once, though all clocks go backwards."""
    run = killed_run(dataset, tmp_path, machines=machines)
    check = check_audit(run)

    assert check.once, check.lines()
    assert check.history.num_attempts == 3
    assert check.history.num_superseded == 3 * 2 + 2 * 2
    assert compare_audits(whole, run).same


def test_without_names_clocks_would_mislead(dataset: MemoryDataset, tmp_path: Path) -> None:
    """Negative control: the same files as an earlier version wrote them, with such clocks, seem to be wrong."""
    run = killed_run(dataset, tmp_path, machines=False)
    for path in run.iterdir():
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            line.pop("attempt", None), line.pop("after", None)
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    assert not check_audit(run).once


@pytest.mark.parametrize("planted", ["lost", "repeated", "other"])
def test_planted_steps_are_told(
    dataset: MemoryDataset, tmp_path: Path, planted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A step that is lost, comes twice or holds other samples is named, and the command says no."""
    run = killed_run(dataset, tmp_path, machines=False)
    path = run / "rank-0.jsonl"
    lines = path.read_text().splitlines()
    assert check_audit(run).once
    changed = json.loads(lines[-2])
    changed["samples"] = f"{int(changed['samples'], 16) ^ 1:016x}"
    lines[-2:-1] = {
        "lost": [],
        "repeated": [lines[-2], lines[-2]],
        "other": [json.dumps(changed)],
    }[planted]
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(SystemExit, match="1"):
        main(["audit", str(run)])
    said = capsys.readouterr().out

    words = {"lost": "lacks 12 positions: 24 to 35", "repeated": "has more than once 12 positions"}
    assert words.get(planted, "each position came once, but not each sample") in " ".join(
        said.split()
    )
    assert "NOT each sample exactly once" in said


def test_a_run_that_is_not_over(
    dataset: MemoryDataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What has not come yet is not lost, but what is missing in front of it is."""
    take(start(dataset, 1, tmp_path / "run.jsonl"), 3)
    with pytest.raises(SystemExit, match="0"):
        main(["audit", str(tmp_path / "run.jsonl")])
    assert "36 samples, each exactly once, so far" in " ".join(capsys.readouterr().out.split())


def test_numbers_rise_with_each_state(dataset: MemoryDataset, tmp_path: Path) -> None:
    """A state names the attempt that saved it; all ranks that load it have the next number and one name."""
    audit = tmp_path / "rank-{rank}.jsonl"
    state = take(start(dataset, 2, audit), 1)
    second = start(dataset, 3, audit, state)
    assert {rank.state_dict()["attempt"] for rank in second} == {state["attempt"]}
    take(second, 1)
    names = {rank.state_dict()["attempt"] for rank in second}
    [name] = names

    assert (state["attempt"][:2], name[:2]) == ("0-", "1-")
    second[0].load_state_dict(state)
    take(second[:1], 1)
    assert second[0].state_dict()["attempt"].startswith("2-")


def test_states_of_earlier_versions(dataset: MemoryDataset, tmp_path: Path) -> None:
    """A state without an attempt loads, its lines go on from those in front of them; a damaged one is refused."""
    audit = tmp_path / "rank-{rank}.jsonl"
    state = dict(take(start(dataset, 2, audit), 2))
    del state["attempt"]
    again = start(dataset, 1, audit, state)
    take(again, 2)

    assert check_audit(tmp_path).once
    with pytest.raises(StateMismatchError, match=r"attempt='7', allowed are a number and 8 hex"):
        again[0].load_state_dict({**state, "attempt": "7"})
