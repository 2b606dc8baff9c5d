"""The search over what can be set: everything alone, then what was good together, in a bounded time."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from bench.tune.candidates import DEFAULTS, Candidate, combinations
from bench.tune.halving import Step, halve
from bench.tune.heat import LEAST_GAIN, Heat, Turn
from bench.tune.trials import Trials

_FIRST_PART = 0.5
_LEAST_SECONDS = 0.25
_MOST_COMBINATIONS = 2
_MARGIN = 1.15
_SURE_ROUNDS = 4

Tell = Callable[[str, float], None]
"""Gets a line of text, and how much of the time has gone by, from 0 to 1."""


@dataclass
class Sweep:
    """What a search found; it grows while it goes on, so what is there when somebody interrupts it can be used.

    Attributes:
        candidates: All that took part, by name.
        alone: Turns of the defaults and of single changes.
        together: Turns of the best of them, of their combinations, and of options.
        free: Turns of a consumer that does not wait for a training step, by name.
        chosen: Name of the candidate to take.
        absent: Why candidates could not take part, by name.
        left_out: Names of those for which there was no time.
    """

    candidates: dict[str, Candidate] = field(default_factory=dict)
    alone: Heat = field(default_factory=Heat)
    together: Heat = field(default_factory=Heat)
    free: dict[str, Turn] = field(default_factory=dict)
    chosen: str = DEFAULTS
    absent: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def heat_of(self, name: str) -> Heat:
        """The turns that judge a candidate: the later ones where it was among the best."""
        return self.together if self.together.ratios(name, DEFAULTS) else self.alone


@dataclass(frozen=True)
class Search:
    """How a search goes on.

    Attributes:
        trials: Where candidates work.
        seconds: All of it takes about so long.
        wanted: Samples per second that are enough; None where faster is better.
        num_threads: Threads of a loader that is not told, and so `prefetch`: for their cost.
        tell: Is told how far it is.
        clock: Seconds.
    """

    trials: Trials
    seconds: float
    wanted: float | None
    num_threads: int
    prefetch: int
    tell: Tell = lambda _, __: None
    clock: Callable[[], float] = time.monotonic


def sweep(search: Search, singles: Sequence[Candidate], options: Sequence[Candidate]) -> Sweep:
    """Look for the best settings.

    Args:
        search: How.
        singles: The defaults, and what is tried alone, most promising first.
        options: What alters pixels or order: it is measured beside the best, and never chosen.

    Returns:
        What was found; `KeyboardInterrupt` ends it early, once the defaults had a turn.

    Raises:
        Exception: What a loader with the defaults raises.
    """
    found = Sweep(absent=search.trials.absent)
    try:
        _search(search, found, singles, options)
    except KeyboardInterrupt as interrupt:
        found.candidates |= search.trials.candidates
        if not found.alone.rates(DEFAULTS):
            raise
        found.chosen = _choose(search, found)
        raise Interrupted(found) from interrupt
    return found


class Interrupted(Exception):  # noqa: N818 - what somebody did
    """Somebody ended a search; `found` holds what it had found."""

    def __init__(self, found: Sweep) -> None:
        super().__init__("interrupted")
        self.found = found


def _search(
    search: Search, found: Sweep, singles: Sequence[Candidate], options: Sequence[Candidate]
) -> None:
    budget, trials = _Budget(search, search.clock()), search.trials
    search.tell("starting a loader with the defaults", 0.0)
    trials.open(singles[0], needed=True)
    found.candidates = trials.candidates
    found.alone.add(DEFAULTS, -1, budget.first_turn())  # so that an interrupt finds something
    half = _FIRST_PART * search.seconds
    names = budget.opened([DEFAULTS], singles[1:], until=half, least=2)
    found.left_out = [
        single.name for single in singles if single.name not in names + list(found.absent)
    ]
    del found.alone.turns[DEFAULTS]
    best = _halve(search, found, names, found.alone, budget, half)
    finalists = [DEFAULTS, *[name for name in best if name != DEFAULTS][:2]]
    trials.keep(finalists)
    more = [*_combined(search, found), *options]
    together = budget.opened(finalists, more, until=search.seconds, least=len(finalists))
    _halve(search, found, together, found.together, budget, search.seconds)
    found.chosen = _choose(search, found)
    search.tell("the fastest that it can", 1.0)
    _measure_free(search, found)


@dataclass
class _Budget:
    """The time of a search, and what of it a turn takes."""

    search: Search
    began: float
    turn_seconds: float = 0.0

    @property
    def gone(self) -> float:
        """Seconds since it began."""
        return self.search.clock() - self.began

    def first_turn(self) -> Turn:
        """Let the defaults work, to see how long a turn takes."""
        asked = self.gone
        turn = self.search.trials.turn(DEFAULTS, _LEAST_SECONDS)
        self.turn_seconds = self.gone - asked
        return turn

    def opened(
        self, names: Sequence[str], more: Sequence[Candidate], *, until: float, least: int
    ) -> list[str]:
        """Open candidates as long as there is time for all to have two turns.

        Args:
            names: Those that are open.
            more: Those to open, most promising first.
            until: When all turns must be over, in seconds since the search began.
            least: So many are needed, whatever the time.

        Returns:
            Names of all that are open.
        """
        found = list(names)
        for candidate in more:
            late = self.gone + 2 * (len(found) + 1) * self.turn_seconds > until
            if candidate.name in found or (late and len(found) >= least):
                continue
            self.search.tell(
                f"starting {candidate.name}", min(1.0, self.gone / self.search.seconds)
            )
            if self.search.trials.open(candidate):
                found.append(candidate.name)
        return found


def _halve(
    search: Search, found: Sweep, names: list[str], heat: Heat, budget: _Budget, until: float
) -> list[str]:
    def tell(step: Step) -> None:
        text = f"{step.alive} left: {step.name}"
        search.tell(text, min(1.0, budget.gone / search.seconds))

    left = max(0.0, until - budget.gone)
    aim = search.wanted is not None
    return halve(
        names,
        search.trials.turn,
        seconds=left,
        ranked=partial(_ranked, search, found),
        heat=heat,
        least_seconds=_LEAST_SECONDS,
        drop=search.trials.drop,
        tell=tell,
        settled=partial(_is_settled, search, found) if aim else None,
        clock=search.clock,
    )


def _ranked(search: Search, found: Sweep, heat: Heat, names: Sequence[str]) -> list[str]:
    """Best first: what is enough by its cost, then what is fast; what alters anything comes last."""

    def key(name: str) -> tuple[object, ...]:
        candidate = found.candidates[name]
        enough = search.wanted is not None and heat.is_enough(name)
        cost = candidate.cost(search.num_threads, search.prefetch) if enough else ()
        return bool(candidate.alters), not enough, cost, -heat.factor(name, DEFAULTS)

    return sorted(names, key=key)


def _is_settled(search: Search, found: Sweep, heat: Heat, best: Sequence[str]) -> bool:
    """Whether the cheapest of all has been enough in each of four rounds."""
    cheapest = min(best, key=lambda name: _cost(search, found, name))
    return heat.is_enough(cheapest) and len(heat.rates(cheapest)) >= _SURE_ROUNDS


def _cost(search: Search, found: Sweep, name: str) -> tuple[bool, int, int, int]:
    return found.candidates[name].cost(search.num_threads, search.prefetch)


def _combined(search: Search, found: Sweep) -> list[Candidate]:
    """Combinations of what was faster alone; none where the defaults are enough."""
    heat = found.alone
    if search.wanted is not None and heat.is_enough(DEFAULTS):
        return []
    good = [
        name
        for name in heat.fastest_first(heat.turns, DEFAULTS)
        if name != DEFAULTS and heat.factor(name, DEFAULTS) > 1 + LEAST_GAIN
    ]
    return combinations([found.candidates[name] for name in good])[:_MOST_COMBINATIONS]


def _choose(search: Search, found: Sweep) -> str:
    """The cheapest of those that are enough, or that are as good as the best; the defaults where nothing beats them."""
    heat = found.together if len(found.together.turns) > 1 else found.alone
    names = [name for name in heat.turns if not found.candidates[name].alters]
    names.sort(key=lambda name: _cost(search, found, name))
    if search.wanted is not None and (enough := [name for name in names if heat.is_enough(name)]):
        return _with_margin(search, found, enough)
    better = [name for name in names if heat.beats(name, DEFAULTS)]
    best = next(iter(heat.fastest_first(better, DEFAULTS)), DEFAULTS)
    as_good = [name for name in better if not heat.beats(best, name)]
    return min(as_good, key=lambda name: len(found.candidates[name].settings), default=DEFAULTS)


def _with_margin(search: Search, found: Sweep, enough: Sequence[str]) -> str:
    """The cheapest that could give a little more than is wanted; else the one that could give most."""
    assert search.wanted is not None
    for name in enough:
        rate = _free(search, found, name).rate
        if rate >= _MARGIN * search.wanted:
            return name
    return max(enough, key=lambda name: found.free[name].rate)


def _measure_free(search: Search, found: Sweep) -> None:
    """Let the defaults and the chosen one make what they can."""
    if search.wanted is not None:
        for name in {DEFAULTS, found.chosen}:
            _free(search, found, name)


def _free(search: Search, found: Sweep, name: str) -> Turn:
    if name not in found.free:
        search.trials.open(found.candidates[name])
        found.free[name] = search.trials.free_turn(name, 4 * _LEAST_SECONDS)
    return found.free[name]
