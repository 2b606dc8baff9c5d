"""Successive halving with a made-up clock: it finds the best, is fair, and ends in time."""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from bench.tune.halving import halve
from bench.tune.heat import Heat, Turn

SPEEDS = {"defaults": 100.0, "a": 80.0, "b": 130.0, "c": 101.0, "d": 60.0, "e": 125.0, "f": 90.0}


class Machine:
    """Candidates with known speeds on a machine whose own speed drifts, and a clock that only turns move on."""

    def __init__(
        self,
        speeds: dict[str, float],
        *,
        drift: Callable[[float], float] = lambda _: 1.0,
        noise: float = 0.0,
        overhead: float = 0.2,
    ) -> None:
        self.speeds, self.drift, self.noise, self.overhead = speeds, drift, noise, overhead
        self.now = 0.0
        self.turns: list[tuple[str, float]] = []
        self.dropped: list[str] = []
        self.rng = np.random.default_rng(0)

    def measure(self, name: str, seconds: float) -> Turn:
        """Work for so long, and some time more that is not measured."""
        self.turns.append((name, seconds))
        self.now += self.overhead + seconds
        rate = self.speeds[name] * self.drift(self.now) * self.rng.normal(1, self.noise)
        return Turn(round(1000 * rate * seconds), 1000 * seconds, 0.0)

    def halve(self, seconds: float, heat: Heat | None = None) -> list[str]:
        """Search among all."""
        return halve(
            list(self.speeds),
            self.measure,
            seconds=seconds,
            ranked=fastest_first,
            heat=Heat() if heat is None else heat,
            drop=self.dropped.append,
            clock=lambda: self.now,
        )


def fastest_first(heat: Heat, names: Sequence[str]) -> list[str]:
    """Rank by speed beside the defaults."""
    return heat.fastest_first(names, "defaults")


def test_the_best_is_found() -> None:
    """The fastest comes first, and the defaults stay to the end, to be compared with."""
    machine = Machine(SPEEDS, noise=0.03)

    best = machine.halve(60)

    assert best[0] == "b"
    assert "defaults" in best
    assert {"a", "d", "f"} <= set(machine.dropped)


def test_a_machine_that_slows_down_hits_all_alike() -> None:
    """Speeds are compared within rounds, so drift by a factor of four does not change the outcome."""
    machine = Machine(SPEEDS, drift=lambda now: 1 - 0.75 * min(now / 60, 1))
    heat = Heat()

    best = machine.halve(60, heat)

    assert best[0] == "b"
    assert heat.factor("b", "defaults") == pytest.approx(1.3, rel=0.05)
    rates = heat.rates("defaults")
    assert max(rates) > 2 * min(rates)


def test_all_of_a_round_have_one_turn_of_one_length() -> None:
    """Until somebody is dropped all have as many turns, as long ones, and nobody is always the first."""
    machine = Machine(SPEEDS)

    machine.halve(60)

    size = len(SPEEDS)
    rounds = [machine.turns[at : at + size] for at in range(0, 2 * size, size)]
    for one in rounds:
        assert {name for name, _ in one} == set(SPEEDS)
    assert len({round(seconds, 6) for _, seconds in rounds[1]}) == 1
    assert rounds[0][0][0] != rounds[1][0][0]


def test_the_better_half_works_longer() -> None:
    """Who goes on gets more time than who is dropped first."""
    machine = Machine(SPEEDS)
    machine.halve(60)
    spent: Counter[str] = Counter()
    for name, seconds in machine.turns:
        spent[name] += seconds  # type: ignore[assignment]

    assert spent["b"] > 1.5 * spent["d"]


@pytest.mark.parametrize("seconds", [5, 20, 60])
def test_time_is_bounded(seconds: float) -> None:
    """All turns together take no longer than asked for and one turn, or than the first round."""
    machine = Machine({**SPEEDS, "defaults": 129.0}, noise=0.05)

    machine.halve(seconds)

    longest = max(took for _, took in machine.turns) + machine.overhead
    first_round = len(SPEEDS) * (0.25 + machine.overhead)
    assert machine.now <= max(seconds + longest, first_round + 1e-9)


def test_a_clear_leader_ends_the_search() -> None:
    """Who is far ahead in four rounds needs no more; without one the whole time is used."""
    clear = Machine({"defaults": 100.0, "a": 300.0, "b": 90.0, "c": 80.0})
    even = Machine({"defaults": 100.0, "a": 101.0, "b": 99.0, "c": 100.5})

    assert clear.halve(60)[0] == "a"
    even.halve(60)

    assert clear.now < 35
    assert even.now > 50


def test_one_candidate_alone_has_its_turns() -> None:
    """The defaults alone are measured, too."""
    heat = Heat()

    assert Machine({"defaults": 100.0}).halve(4, heat) == ["defaults"]
    assert len(heat.rates("defaults")) >= 2


def test_an_interrupt_leaves_what_was_measured() -> None:
    """Turns that were taken before somebody ended the search stand in the heat."""
    machine, heat = Machine(SPEEDS), Heat()

    def measure(name: str, seconds: float) -> Turn:
        if len(machine.turns) == 10:
            raise KeyboardInterrupt
        return machine.measure(name, seconds)

    with pytest.raises(KeyboardInterrupt):
        halve(
            list(SPEEDS),
            measure,
            seconds=60,
            ranked=fastest_first,
            heat=heat,
            clock=lambda: machine.now,
        )

    assert sum(len(heat.rates(name)) for name in SPEEDS) == 10


def test_noise_is_no_gain() -> None:
    """What is faster by less than its rounds differ is not better; a small steady gain is."""
    heat = Heat()
    rates = {
        "defaults": [100, 100, 100, 100],
        "noisy": [130, 90, 120, 95],
        "steady": [106, 107, 106, 105],
    }
    for name, own in rates.items():
        for number, rate in enumerate(own):
            heat.add(name, number, Turn(rate, 1.0, 0.0))

    assert heat.factor("noisy", "defaults") > 1.06
    assert not heat.beats("noisy", "defaults")
    assert heat.beats("steady", "defaults")
    assert not heat.beats("defaults", "defaults")


def test_one_round_proves_nothing() -> None:
    """A single round, however good, beats nobody."""
    heat = Heat()
    heat.add("defaults", 0, Turn(100, 1.0, 0.0))
    heat.add("lucky", 0, Turn(300, 1.0, 0.0))

    assert not heat.beats("lucky", "defaults")


def test_only_rounds_of_both_are_compared() -> None:
    """A round that one of them missed says nothing, and shifts no other."""
    heat = Heat()
    for number, rate in ((0, 100), (1, 50), (2, 200)):
        heat.add("defaults", number, Turn(rate, 1.0, 0.0))
    for number, rate in ((0, 120), (2, 240)):
        heat.add("a", number, Turn(rate, 1.0, 0.0))

    assert heat.ratios("a", "defaults") == [1.2, 1.2]
