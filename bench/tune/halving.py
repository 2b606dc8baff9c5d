"""Successive halving: many candidates have short turns, the better half of them longer ones, and so on.

After Jamieson and Talwalkar, Non-stochastic Best Arm Identification, AISTATS 2016 (https://arxiv.org/abs/1502.07943).
All candidates of a stretch take turns in rounds, so what else the machine does hits all of them alike.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bench.compare.timer import rotated
from bench.tune.heat import Heat, Turn

_ROUNDS, _ROUNDS_AT_LAST = 4, 6
_CLEAR = 1.1
_LEAST_ROUNDS, _ROUNDS_AT_LAST = 4, 6

Measure = Callable[[str, float], Turn]
"""Lets a candidate work for about so many seconds; it may take longer, for what it does before its clock starts."""


@dataclass(frozen=True)
class Step:
    """How far the search is, for a progress bar.

    Attributes:
        stretch: Number of this stretch, from 1, of `stretches`.
        stretches: How often the candidates are halved.
        alive: How many candidates are left.
        name: Whose turn it is.
        seconds: Seconds that have gone by.
    """

    stretch: int
    stretches: int
    alive: int
    name: str
    seconds: float


@dataclass
class _Run:
    """One search under way."""

    measure: Measure
    heat: Heat
    began: float
    end: float
    least_seconds: float
    tell: Callable[[Step], None]
    clock: Callable[[], float]
    over: Callable[[Sequence[str]], bool]
    rounds: int = 0
    overhead: dict[str, float] = field(default_factory=dict)

    def stretch(self, alive: Sequence[str], number: int, stretches: int) -> None:
        """Let all have rounds until a fair part of the time that is left has gone by, or the search is over."""
        seconds = (self.end - self.clock()) / (stretches - number + 1)
        until = self.clock() + seconds
        share = seconds / len(alive) / (_ROUNDS if number < stretches else _ROUNDS_AT_LAST)
        whole = True
        while whole:
            whole = self._round(alive, share, number, stretches)
            if self.over(alive) or self.clock() + share * len(alive) / 2 >= until:
                return

    def _round(self, alive: Sequence[str], share: float, number: int, stretches: int) -> bool:
        """Let each have a turn; False where there was no time for all of them."""
        for name in rotated(alive, self.rounds):
            if self.rounds and self.clock() >= self.end:
                return False
            self.tell(Step(number, stretches, len(alive), name, self.clock() - self.began))
            seconds = max(self.least_seconds, share - self.overhead.get(name, 0.0))
            began = self.clock()
            self.heat.add(name, self.rounds, self.measure(name, seconds))
            self.overhead[name] = max(0.0, self.clock() - began - seconds)
        self.rounds += 1
        return True


def halve(
    names: Sequence[str],
    measure: Measure,
    *,
    seconds: float,
    ranked: Callable[[Heat, Sequence[str]], list[str]],
    heat: Heat,
    least_seconds: float = 0.25,
    drop: Callable[[str], None] = lambda _: None,
    tell: Callable[[Step], None] = lambda _: None,
    settled: Callable[[Heat, Sequence[str]], bool] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> list[str]:
    """Find the best of some candidates in a bounded time.

    The first one is the one that all others are compared with: it stays until the end.

    Args:
        names: At least one; each is told apart by its name.
        measure: Lets one work.
        seconds: All turns together take at most about so long: a turn that has begun is finished, and the first
            round is.
        ranked: Sorts candidates, best first, by the rounds so far.
        heat: Gets all turns, also those before somebody interrupts; a new one.
        least_seconds: No turn is shorter.
        drop: Is told of each candidate that is left behind.
        tell: Is told before every turn.
        settled: Says that the search can end; None lets it end when the best one was faster than all others by
            a tenth in each of four rounds.
        clock: Seconds, for tests.

    Returns:
        The candidates that were left at the end, best first.

    Example:
        >>> speeds = {"slow": 10.0, "fast": 20.0}
        >>> now = [0.0]
        >>> def work(name: str, seconds: float) -> Turn:
        ...     now[0] += seconds
        ...     return Turn(round(speeds[name] * seconds), seconds, 0.0)
        >>> best_first = lambda heat, names: heat.fastest_first(names, "slow")
        >>> halve(
        ...     ["slow", "fast"], work, seconds=8, ranked=best_first, heat=Heat(), clock=lambda: now[0]
        ... )
        ['fast', 'slow']
    """
    began, over = clock(), settled or is_clear
    run = _Run(
        *(measure, heat, began, began + seconds, least_seconds, tell, clock),
        lambda names: over(heat, ranked(heat, names)),
    )
    alive, stretches = list(names), max(1, math.ceil(math.log2(len(names))))
    for number in range(1, stretches + 1):
        run.stretch(alive, number, stretches)
        if number == stretches or run.over(alive) or clock() >= run.end:
            break
        alive = _better_half(ranked(heat, alive), names[0], drop)
    return ranked(heat, alive)


def is_clear(heat: Heat, best: Sequence[str]) -> bool:
    """Whether the first one was faster than each of the others by a tenth, in each of at least four rounds."""
    if len(best) < 2:
        return False
    first, *others = best
    found = [heat.ratios(first, other)[-_LEAST_ROUNDS:] for other in others]
    return all(len(ratios) == _LEAST_ROUNDS and min(ratios) > _CLEAR for ratios in found)


def _better_half(best: Sequence[str], kept: str, drop: Callable[[str], None]) -> list[str]:
    """Return the better half, and the one that is kept whatever it did, in front."""
    left = [name for name in best[: math.ceil(len(best) / 2)] if name != kept]
    for name in best:
        if name != kept and name not in left:
            drop(name)
    return [kept, *left]
