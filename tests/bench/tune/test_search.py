"""The search among loaders of known speed: what is kept, and that noise of the machine is no reason to change anything."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from bench.timing import Ratio, Turn
from bench.tune.candidates import Settings
from bench.tune.search import Found, Search, is_gain
from bench.tune.trial import Pace
from dali_pipes import BadSampleError

THREADS: dict[str, Any] = {"num_threads": 4}
PREFETCH: dict[str, Any] = {"prefetch": 6}
HELPER: dict[str, Any] = {"helper_process": True}
KORNIA: dict[str, Any] = {"engine": "kornia"}
CANDIDATES: list[dict[str, Any]] = [THREADS, PREFETCH, HELPER, KORNIA]


@pytest.fixture(autouse=True)
def _no_collections(monkeypatch: pytest.MonkeyPatch) -> None:
    """No garbage is collected before turns that take no time."""
    monkeypatch.setattr("bench.timing.turns._few_collections", nullcontext)


@dataclass
class Machine:
    """Loaders whose speed is known, on a clock of its own.

    Attributes:
        gains: By setting how many times as fast it makes a loader.
        step_rate: Samples per second that the training step takes at most.
        noise: Returns a factor for every turn.
        broken: What opening or a turn raises, by setting.
    """

    gains: dict[str, float] = field(default_factory=dict)
    step_rate: float = float("inf")
    noise: Callable[[], float] = lambda: 1.0
    broken: dict[str, BaseException] = field(default_factory=dict)
    breaks_in_turn: bool = False
    now: float = 0.0
    alive: int = 0

    def open(self, settings: Settings) -> "Made":
        """Start a loader, which takes half a second."""
        self.now += 0.5
        made = Made(self, settings)
        if not self.breaks_in_turn:
            made.fail()
        self.alive += 1
        return made

    def search(
        self,
        seconds: float = 120.0,
        candidates: list[dict[str, Any]] = CANDIDATES,
        at_end: Callable[["Made"], object] = lambda _: None,
    ) -> Found:
        """Look for the best settings."""
        found = Found()
        pace = Pace(0.5, 0.6, seconds, clock=lambda: self.now)
        search = Search(self.open, pace, self.step_rate < float("inf"), at_end)
        try:
            search.run(self.open({}), candidates, found)
        finally:
            self.alive -= 1
            assert self.alive == 0
        return found


@dataclass
class Made:
    """A loader of such a machine."""

    machine: Machine
    settings: Settings

    def fail(self) -> None:
        """Raise what was asked for."""
        for name in self.settings:
            if name in self.machine.broken:
                raise self.machine.broken[name]

    def turn(self, seconds: float) -> Turn:
        """Work for so long, and rest for a moment."""
        self.fail()
        rate = 100.0 * self.machine.noise()
        for name in self.settings:
            rate *= self.machine.gains.get(name, 1.0)
        self.machine.now += seconds + 0.1
        given = min(rate, self.machine.step_rate)
        waits = max(0.0, 1 - rate / self.machine.step_rate)
        return Turn(
            round(1000 * given * seconds), 1000 * seconds, wait_seconds=1000 * seconds * waits
        )

    def close(self) -> None:
        """End."""
        self.machine.alive -= 1


@pytest.mark.parametrize(
    ("gains", "expected"),
    [
        ({}, {}),
        ({"num_threads": 1.3}, THREADS),
        ({"num_threads": 1.3, "helper_process": 1.2}, THREADS | HELPER),
        ({"num_threads": 1.04, "engine": 0.5}, {}),
    ],
)
def test_what_helps_is_kept(gains: dict[str, float], expected: dict[str, Any]) -> None:
    """Changes that help are joined and measured once more; others are left out, and everything is closed."""
    found = Machine(gains).search()

    assert found.changes == expected
    assert [dict(one.settings) for one in found.tried] == CANDIDATES
    assert (found.check is not None) == bool(expected)
    if found.check is not None:
        assert found.check.gain.median == pytest.approx(
            np.prod([gains[name] for name in expected]), rel=0.01
        )


def busy(seed: int, spread: float) -> Callable[[], float]:
    """Return the noise of a busy machine: it changes from turn to turn, and some turns are very slow."""
    rng = np.random.default_rng(seed)
    return lambda: float(rng.lognormal(0, spread) * (0.4 if rng.random() < 0.1 else 1.0))


@pytest.mark.parametrize("spread", [0.03, 0.1, 0.3])
def test_noise_is_no_gain(spread: float) -> None:
    """Where no setting matters nothing is recommended, in any of 100 searches."""
    changed = [seed for seed in range(100) if Machine(noise=busy(seed, spread)).search().changes]

    assert changed == []


def test_a_gain_is_found_in_noise() -> None:
    """A setting that helps much is found in most searches on a busy machine, and hardly ever another one with it."""
    results = [
        Machine({"num_threads": 1.5}, noise=busy(seed, 0.1)).search().changes for seed in range(50)
    ]

    assert sum("num_threads" in changes for changes in results) >= 25
    assert sum(bool(changes.keys() - THREADS.keys()) for changes in results) <= 5


@pytest.mark.parametrize(
    ("gains", "expected"),
    [({"num_threads": 1.3, "helper_process": 1.2}, [THREADS | HELPER]), ({}, [])],
)
def test_the_recommended_settings_are_handed_over_at_the_end(
    gains: dict[str, float], expected: list[dict[str, Any]]
) -> None:
    """The loader with all changes is still open; without a change there is none."""
    ends: list[tuple[Settings, int]] = []
    machine = Machine(gains)

    machine.search(at_end=lambda best: ends.append((best.settings, machine.alive)))

    assert ends == [(settings, 2) for settings in expected]


def test_a_gain_that_is_gone_when_measured_again_is_none() -> None:
    """The last check decides; settings that it does not confirm are not recommended."""
    machine = Machine({"num_threads": 1.5})

    def gone() -> float:
        # A search of one candidate has eight rounds of trials before the check.
        if machine.now > 2 * 0.5 + 16 * 0.6:
            machine.gains = {}
        return 1.0

    machine.noise = gone
    ends: list[Made] = []
    found = machine.search(candidates=[THREADS], at_end=ends.append)

    assert not ends
    assert found.tried[0].is_kept
    assert found.check is not None
    assert not found.check.is_kept
    assert found.changes == {}


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ((1.1, 1.2, 1.1), True),
        ((1.1, 1.2), False),
        ((1.04, 1.04, 1.04), False),
        ((1.3, 1.3, 0.99, 1.3, 1.3), False),
        ((1.3, 1.3, 0.99, 1.3, 1.3, 1.3, 1.3, 1.3), True),
        ((1.3, 1.3, 0.99, 0.99, 1.3, 1.3, 1.3, 1.3), False),
    ],
)
def test_a_clear_gain(runs: tuple[float, ...], expected: bool) -> None:
    """At least 5 %, and all rounds but one of eight above 1."""
    assert is_gain(Ratio(runs)) is expected


def test_a_step_that_does_not_wait_ends_the_search() -> None:
    """Once the training step gets what it takes, nothing more is tried."""
    found = Machine({"num_threads": 1.5}, step_rate=140).search()

    assert found.changes == THREADS
    assert len(found.tried) == 1
    assert found.check is not None
    assert found.check.before.wait_share == pytest.approx(1 - 100 / 140)
    assert found.check.after.wait_share == 0


@pytest.mark.parametrize("in_turn", [False, True])
def test_a_setting_that_fails_is_named(in_turn: bool) -> None:
    """With its reason on one line, whether it fails at the start or later; the others are tried."""
    broken: dict[str, BaseException] = {"num_threads": RuntimeError("out of\n  memory")}

    found = Machine({"prefetch": 1.3}, broken=broken, breaks_in_turn=in_turn).search()

    assert found.failed == {"num_threads=4": "out of memory"}
    assert found.changes == PREFETCH


@pytest.mark.parametrize("in_turn", [False, True])
def test_a_bad_sample_ends_everything(in_turn: bool) -> None:
    """It has nothing to do with the setting."""
    error = BadSampleError("sample 3 (a.jpg) is bad")

    with pytest.raises(BadSampleError, match=r"a\.jpg"):
        Machine(broken={"prefetch": error}, breaks_in_turn=in_turn).search()


@pytest.mark.parametrize(("seconds", "num_tried"), [(0.0, 1), (10.0, 2), (120.0, 4)])
def test_the_time_is_kept(seconds: float, num_tried: int) -> None:
    """What there was no time for is named; one setting is always tried."""
    machine = Machine()

    found = machine.search(seconds)

    assert len(found.tried) == num_tried
    assert len(found.tried) + len(found.left_out) == len(CANDIDATES)
    assert machine.now < max(seconds, 6)


def test_an_interrupt_leaves_what_was_found() -> None:
    """Ctrl-C during a later trial leaves the settings that were kept until then."""
    machine = Machine({"num_threads": 1.5}, broken={"helper_process": KeyboardInterrupt()})
    found = Found()

    with pytest.raises(KeyboardInterrupt):
        Search(machine.open, Pace(0.5, 0.6, 120, clock=lambda: machine.now)).run(
            machine.open({}), CANDIDATES, found
        )

    assert found.changes == THREADS
    assert len(found.tried) == 2
    assert found.check is None
