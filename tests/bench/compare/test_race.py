"""A race: everybody has a turn in every round, and another one begins each round."""

from pathlib import Path

import numpy as np
import pytest
import torch

from bench.compare import race as racing
from bench.compare.contestant import Footing
from bench.compare.race import race
from bench.compare.result import Comparison
from bench.compare.timer import Slice
from gpu_aug import Recipe
from tests.support.adapters import MemoryDataset

FOOTING = Footing(
    dataset=MemoryDataset([b""], 1),
    files=[Path("a.jpg")],
    labels=[0],
    recipe=Recipe.imagenet_train(8),
    batch_size=2,
    device=torch.device("cpu"),
    num_threads=1,
    seed=0,
)


class Runner:
    """A contestant in another process, so that nothing is timed here."""

    kind = "engine"
    note = ""
    num_ahead = num_discard = 0

    def __init__(self, name: str, turns: list[str]) -> None:
        self.name, self._turns = name, turns

    def turn(self, seconds: float) -> Slice:
        """Note that it had a turn."""
        self._turns.append(self.name)
        return Slice(10, seconds, 0.0)

    def share(self) -> dict[str, float | None]:
        """Nothing is known."""
        return {}

    def open(self) -> None:
        """Nothing to do."""

    def made(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""


@pytest.mark.parametrize("names", ["ab", "abc"])
def test_contestants_take_turns_and_who_begins_rotates(
    names: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In each round everybody has one turn; over the rounds everybody stands everywhere as often."""
    monkeypatch.setattr(racing, "_rest", lambda *_: None)
    turns: list[str] = []
    runners = [Runner(name, turns) for name in names]
    comparison, rounds = Comparison(settings={}), 2 * len(names)

    race(runners, FOOTING, 0.1, rounds, comparison, lambda _: None)  # type: ignore[arg-type]

    by_round = np.array(turns).reshape(rounds, len(names))
    assert all(sorted(line) == sorted(names) for line in by_round.tolist())
    assert all(sorted(place) == sorted(2 * names) for place in by_round.T.tolist())
    assert {row.name: len(row.rate.runs) for row in comparison.rows} == dict.fromkeys(names, rounds)
