"""Search better settings: one change at a time, measured alternately with the best settings so far."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from bench.timing import Measurement, Ratio, Turn, ratio
from bench.tune.candidates import Settings, is_settled
from bench.tune.trial import Pace, reason_of
from dali_pipes.arguments.names import spelled
from dali_pipes.monitoring.stats import ENOUGH_WAITING

LEAST_GAIN = 1.05
"""A smaller gain is not recommended: it is not worth another setting, and noise of a busy machine can look like it."""

_FIRST_ROUNDS, _MORE_ROUNDS = 3, 5
_PROMISING = 1.03
_FINAL_ROUNDS = 8
"""Simulated for a busy machine, where rates vary by 10 % and a tenth of the turns has less than half of the rate: if
nothing helps, 4 of 1,000 searches recommend something; if a setting makes it 1.5 times as fast, 3 of 4 find it."""

_LAST_ROUNDS = 2  # of two contestants: time for one turn of each stage with the chosen settings

BEFORE, AFTER = "before", "after"


class Candidate(Protocol):
    """A loader with some settings, such as a `bench.tune.trial.Trial`."""

    def turn(self, seconds: float) -> Turn:
        """Work for some seconds, and return what was measured; `Pace.measure` calls this."""

    def close(self) -> None:
        """Release threads, processes and memory."""


def is_gain(found: Ratio) -> bool:
    """Return whether a gain is clear: the median is above 1.05, and at most one in eight rounds is not above 1.

    Example:
        >>> is_gain(Ratio((1.2, 1.3, 1.1, 1.25, 1.2))), is_gain(Ratio((1.2, 1.3, 0.9, 1.25, 1.2)))
        (True, False)
    """
    runs = sorted(found.runs)
    return len(runs) >= _FIRST_ROUNDS and found.median > LEAST_GAIN and runs[len(runs) // 8] > 1


@dataclass(frozen=True)
class Tried:
    """A measured change of settings.

    Attributes:
        settings: The changed settings.
        before: Measurement of the best settings before the change.
        after: Measurement of these settings with the change, made in the rounds of `before`.
        is_kept: Whether the change was clearly faster, and so is part of later trials.
    """

    settings: Settings
    before: Measurement
    after: Measurement
    is_kept: bool

    @classmethod
    def of(cls, settings: Settings, measured: Mapping[str, Measurement]) -> "Tried":
        """Return a change with its measurements, named BEFORE and AFTER; it is kept if `is_gain` of their ratio."""
        before, after = measured[BEFORE], measured[AFTER]
        return cls(settings, before, after, is_gain(ratio(after, before)))

    @property
    def gain(self) -> Ratio:
        """How many times as fast the loader was with the change as before, within rounds."""
        return ratio(self.after, self.before)

    def to_dict(self) -> dict[str, Any]:
        """Return the change and its measurements as values for JSON."""
        return {
            "settings": dict(self.settings),
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
            "wait_share": [round(one.wait_share, 3) for one in (self.before, self.after)],
            "gain": self.gain.to_dict(),
            "kept": self.is_kept,
        }


@dataclass
class Found:
    """The result of a search, which is filled while the search runs, so that an interrupted search has partial results.

    Attributes:
        changes: The settings that were kept.
        tried: The measured changes, in order.
        failed: For the name of each setting that could not be tried, the reason.
        left_out: Names of settings for which no time was left.
        check: A second measurement of the chosen settings and of the user's own; None if no change was kept.
    """

    changes: dict[str, Any] = field(default_factory=dict)
    tried: list[Tried] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    check: Tried | None = None


@dataclass(frozen=True)
class Search:
    """Searches better settings.

    Attributes:
        open: A function that starts a loader with settings that are added to the user's.
        pace: The time for measurements, and the time that is left.
        has_step: Whether a training step is simulated. If so, the search ends when the step does not wait for batches
            any more.
        at_end: Called with the loader with the confirmed changes, before it is closed.
    """

    open: Callable[[Settings], Any]
    pace: Pace
    has_step: bool = False
    at_end: Callable[[Any], object] = lambda _: None

    def run(self, base: Candidate, candidates: Sequence[Settings], found: Found) -> None:
        """Try settings one by one, and check the kept ones at the end.

        Args:
            base: The loader with the user's settings.
            candidates: The settings to try, the most promising first. The first one is tried even if no time is left.
            found: Receives the results.

        Raises:
            dali_pipes.BadSampleError: A sample is bad; settings cannot avoid that.
        """
        best = base
        try:
            for number, settings in enumerate(candidates):
                if is_settled(settings, found.changes):
                    continue
                rounds = _FIRST_ROUNDS + (_FINAL_ROUNDS + _LAST_ROUNDS if found.changes else 0)
                if number and self.pace.turns_left < 2 * rounds:
                    found.left_out.append(spelled(settings))
                    continue
                best = self._try(base, best, settings, found)
                if self.has_step and found.tried and _never_waits(found.tried[-1]):
                    break
            if found.changes:
                # The changes are dropped if a comparison with the user's settings does not confirm the gain.
                both = {BEFORE: base.turn, AFTER: best.turn}
                measured = self.pace.measure(both, _FINAL_ROUNDS, "all changes")
                found.check = Tried.of(found.changes, measured)
                if found.check.is_kept:
                    self.at_end(best)
                else:
                    found.changes = {}
        finally:
            if best is not base:
                best.close()

    def _try(self, base: Candidate, best: Candidate, settings: Settings, found: Found) -> Candidate:
        """Measure a change and return the better loader. The other one is closed, unless it is `base`."""
        name, is_kept = spelled(settings), False
        self.pace.progress(f"starting {name}")
        try:
            changed: Candidate = self.open({**found.changes, **settings})
        except Exception as error:  # noqa: BLE001 - what does not work here is no candidate
            found.failed[name] = reason_of(error)
            return best
        try:
            is_kept = self._compare(best, changed, settings, found)
        finally:
            loser = best if is_kept else changed
            if loser is not base:
                loser.close()
        if is_kept:
            found.changes = {**found.changes, **settings}
        return changed if is_kept else best

    def _compare(
        self, best: Candidate, changed: Candidate, settings: Settings, found: Found
    ) -> bool:
        """Measure a few rounds, and more if they are promising; return whether the change is kept."""
        name = spelled(settings)
        contestants = {BEFORE: best.turn, AFTER: changed.turn}

        def on_failure(side: str, error: Exception) -> None:
            if side == BEFORE:
                raise error
            found.failed[name] = reason_of(error)

        measured = self.pace.measure(contestants, _FIRST_ROUNDS, name, on_failure)
        if AFTER in measured and Tried.of(settings, measured).gain.median > _PROMISING:
            affordable = self.pace.turns_left // 2 - _FINAL_ROUNDS - _LAST_ROUNDS
            rounds = max(_FIRST_ROUNDS, min(_MORE_ROUNDS, affordable))
            more = self.pace.measure(contestants, rounds, name, on_failure)
            measured = {
                side: Measurement(measured[side].turns + own.turns) for side, own in more.items()
            }
        if AFTER not in measured:
            return False
        found.tried.append(Tried.of(settings, measured))
        return found.tried[-1].is_kept


def _never_waits(tried: Tried) -> bool:
    best = tried.after if tried.is_kept else tried.before
    return best.wait_share < ENOUGH_WAITING
