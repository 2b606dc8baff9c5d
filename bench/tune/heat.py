"""Turns of candidates in rounds, and what they say about one beside another."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

from dali_pipes.stats.stats import ENOUGH_WAITING

LEAST_GAIN = 0.03
"""A smaller gain than this is none, however often it is seen."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What a candidate did in one turn.

    Attributes:
        samples: Samples handed over while the clock ran.
        seconds: How long it ran.
        wait_seconds: How long of that the consumer waited for the next batch.
    """

    samples: int
    seconds: float
    wait_seconds: float

    @property
    def rate(self) -> float:
        """Samples per second."""
        return self.samples / self.seconds

    @property
    def wait_share(self) -> float:
        """The part of the time that the consumer waited."""
        return self.wait_seconds / self.seconds


@dataclass
class Heat:
    """The turns of candidates, by name and by the number of the round.

    Candidates are compared within rounds alone: what else the machine does is then much the same for both.
    """

    turns: dict[str, dict[int, Turn]] = field(default_factory=dict)

    def add(self, name: str, number: int, turn: Turn) -> None:
        """Note a turn."""
        self.turns.setdefault(name, {})[number] = turn

    def rates(self, name: str) -> list[float]:
        """Samples per second in each of its turns."""
        return [turn.rate for turn in self.turns.get(name, {}).values()]

    def wait_share(self, name: str) -> float:
        """The part of the time that its consumer waited, the median of its turns; 1 where it had none."""
        return median([turn.wait_share for turn in self.turns.get(name, {}).values()] or [1.0])

    def is_enough(self, name: str) -> bool:
        """Whether its consumer did not wait in nine of ten turns."""
        waits = [turn.wait_share < ENOUGH_WAITING for turn in self.turns.get(name, {}).values()]
        return bool(waits) and sum(waits) >= 0.9 * len(waits)

    def ratios(self, name: str, other: str) -> list[float]:
        """How many times as fast it was as another one, in each round that both took part in."""
        mine, theirs = self.turns.get(name, {}), self.turns.get(other, {})
        return [mine[number].rate / theirs[number].rate for number in mine if number in theirs]

    def factor(self, name: str, other: str) -> float:
        """The median of `ratios`; 0 where they never met."""
        return median(self.ratios(name, other) or [0.0])

    def beats(self, name: str, other: str) -> bool:
        """Whether it was faster by more than the spread of their rounds."""
        ratios = self.ratios(name, other)
        return len(ratios) > 1 and median(ratios) - 1 > max(LEAST_GAIN, spread_of(ratios))

    def fastest_first(self, names: Iterable[str], other: str) -> list[str]:
        """Sort by how much faster than another one they were."""
        return sorted(names, key=lambda name: -self.factor(name, other))


def spread_of(values: Sequence[float]) -> float:
    """Half of the range of some values, without the lowest and the highest where there are five or more."""
    ordered = sorted(values)
    if len(ordered) >= 5:
        ordered = ordered[1:-1]
    return (ordered[-1] - ordered[0]) / 2
