"""The search: what is chosen of candidates with known speeds, and what it does with its time."""

from collections.abc import Callable, Iterable
from typing import Any, cast

import pytest

from bench.tune.advice import measured_advice
from bench.tune.candidates import DEFAULTS, Candidate
from bench.tune.heat import Turn
from bench.tune.sweep import Interrupted, Search, Sweep, sweep
from bench.tune.trials import Trials

THREADS = Candidate({"num_threads": 4})
PREFETCH = Candidate({"prefetch": 4})
HELPER = Candidate({"helper_process": True})
ONE_THREAD = Candidate({"num_threads": 1})
FAST = Candidate({"decode": "fast"}, "pixels")
SINGLES = [Candidate(), THREADS, PREFETCH, HELPER, ONE_THREAD]


class Made:
    """Stands for the loaders: each setting makes the loader so many times as fast."""

    def __init__(
        self,
        gains: dict[str, float],
        *,
        default: float = 100.0,
        wanted: float | None = None,
        broken: tuple[str, ...] = (),
        noise: Callable[[int], float] = lambda _: 1.0,
    ) -> None:
        self.gains, self.default, self.wanted, self.noise = gains, default, wanted, noise
        self.broken, self.now, self.count = broken, 0.0, 0
        self.candidates: dict[str, Candidate] = {}
        self.absent: dict[str, str] = {}
        self.alive: set[str] = set()

    def open(self, candidate: Candidate, *, needed: bool = False) -> bool:
        """Start one, which takes a second."""
        del needed
        self.now += 1.0
        if candidate.name in self.broken:
            self.absent[candidate.name] = "it is not installed"
            return False
        self.candidates[candidate.name] = candidate
        self.alive.add(candidate.name)
        return True

    def rate(self, name: str) -> float:
        """Samples per second, if nobody waits for a training step."""
        rate = self.default
        for setting, value in self.candidates[name].settings.items():
            rate *= self.gains.get(f"{setting}={value}", 1.0)
        return rate

    def turn(self, name: str, seconds: float) -> Turn:
        """Work for so long."""
        assert name in self.alive
        self.count += 1
        self.now += seconds + 0.1
        rate = self.rate(name) * self.noise(self.count)
        if self.wanted is None:
            return Turn(round(1000 * rate * seconds), 1000 * seconds, 1000 * seconds)
        waits = max(0.0, 1 - rate / self.wanted)
        given = min(rate, self.wanted)
        return Turn(round(1000 * given * seconds), 1000 * seconds, 1000 * seconds * waits)

    def free_turn(self, name: str, seconds: float) -> Turn:
        """Work without a training step."""
        self.now += seconds
        return Turn(round(1000 * self.rate(name) * seconds), 1000 * seconds, 1000 * seconds)

    def drop(self, name: str) -> None:
        """End one."""
        self.alive.discard(name)

    def keep(self, names: Iterable[str]) -> None:
        """End all others."""
        self.alive &= set(names)


def search(made: Made, seconds: float = 60.0) -> Sweep:
    """Search among all."""
    how = Search(cast("Trials", made), seconds, made.wanted, 2, 2, clock=lambda: made.now)
    return sweep(how, SINGLES, [FAST])


def test_what_helps_is_found_and_joined() -> None:
    """Two settings that help alone are tried together, and chosen together."""
    found = search(Made({"num_threads=4": 1.3, "prefetch=4": 1.2}))

    assert dict(found.candidates[found.chosen].settings) == {"num_threads": 4, "prefetch": 4}
    heat = found.heat_of(found.chosen)
    assert heat.factor(found.chosen, DEFAULTS) == pytest.approx(1.56, rel=0.01)


def test_the_defaults_stay_where_nothing_beats_them() -> None:
    """Noise of a tenth is no reason to change anything."""
    found = search(Made({"num_threads=4": 1.02}, noise=lambda count: 1 + 0.1 * (count % 3 - 1)))

    assert found.chosen == DEFAULTS
    assert measured_advice(found) == []


def test_a_setting_that_adds_nothing_is_left_out() -> None:
    """Of two that are as good the one with fewer changes is taken."""
    found = search(
        Made({"num_threads=4": 1.5, "prefetch=4": 1.04, "num_threads=4, prefetch=4": 1.5})
    )

    assert dict(found.candidates[found.chosen].settings).get("num_threads") == 4
    single = search(Made({"num_threads=4": 1.5}))
    assert dict(single.candidates[single.chosen].settings) == {"num_threads": 4}


def test_of_what_was_tried_the_chosen_settings_are_the_advice() -> None:
    """Parts of them, which are better than the defaults as well, are not told beside them."""
    found = search(Made({"num_threads=4": 1.3, "prefetch=4": 1.2}))

    assert [one.change for one in measured_advice(found)] == [found.chosen]


def test_other_pixels_are_named_and_never_chosen() -> None:
    """An option that is by far the fastest is advice alone."""
    found = search(Made({"decode=fast": 3.0}))

    assert found.chosen == DEFAULTS
    (advice,) = measured_advice(found)
    assert (advice.change, advice.alters, advice.measured) == ("decode='fast'", "pixels", True)
    assert advice.factor == pytest.approx(3, rel=0.01)


def test_enough_is_enough() -> None:
    """Where the training step is slow the cheapest that is enough wins, not the fastest."""
    gains = {"num_threads=4": 2.0, "num_threads=1": 0.6}

    assert search(Made(gains, wanted=45)).chosen == "num_threads=1"
    assert search(Made(gains, wanted=80)).chosen == DEFAULTS
    assert search(Made(gains, wanted=150)).chosen == "num_threads=4"


def test_hardly_enough_is_not_taken() -> None:
    """What could give less than 15 % more than is wanted gives way to what could."""
    assert search(Made({"num_threads=1": 0.5}, wanted=48)).chosen == DEFAULTS


def test_where_nothing_is_enough_the_fastest_wins() -> None:
    """A step that no setting satisfies gets what comes nearest."""
    found = search(Made({"num_threads=4": 1.4}, wanted=500))

    assert found.chosen == "num_threads=4"
    assert not found.heat_of(found.chosen).is_enough(found.chosen)


def test_a_quick_answer_where_the_defaults_are_enough() -> None:
    """A step that even one thread satisfies does not take the whole time."""
    made = Made({"num_threads=1": 0.9}, wanted=20)

    search(made)

    assert made.now < 45


def test_what_cannot_start_is_told() -> None:
    """A candidate that fails takes no part, and its reason is kept."""
    made = Made({"num_threads=4": 1.5}, broken=("helper_process=True",))

    found = search(made)

    assert found.absent == {"helper_process=True": "it is not installed"}
    assert found.chosen == "num_threads=4"


@pytest.mark.parametrize("seconds", [10.0, 30.0, 90.0])
def test_the_time_is_kept(seconds: float) -> None:
    """All of it takes about as long as asked for; for what there is no time is named."""
    made = Made({"num_threads=4": 1.02})

    found = search(made, seconds)

    assert made.now < seconds + 3
    assert bool(found.left_out) == (seconds < 30)


def test_an_interrupt_gives_what_there_is() -> None:
    """Ctrl-C after some rounds gives the best so far."""
    made = Made({"num_threads=4": 2.0})

    def noise(count: int) -> float:
        if count == 30:
            raise KeyboardInterrupt
        return 1.0

    made.noise = noise

    with pytest.raises(Interrupted) as interrupted:
        search(made)

    assert interrupted.value.found.chosen == "num_threads=4"


def test_an_interrupt_before_the_first_turn_is_one() -> None:
    """Without a single turn there is nothing to tell."""
    made = Made({})
    made.turn = cast(Any, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))  # type: ignore[method-assign]

    with pytest.raises(KeyboardInterrupt):
        search(made)
