"""Statistics that a loader hands to callables of the user while a loop runs."""

import inspect
import logging
import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from dali_pipes.errors import LoaderError
from dali_pipes.monitoring.loop import Scope
from dali_pipes.monitoring.stats import Stats

_log = logging.getLogger(f"gpu_aug.{__name__}")

_SECONDS = 10.0
_LOOP = 7  # calls between the user's loop and a warning of here

Call = Callable[[Stats], object]


@dataclass(frozen=True, slots=True)
class Every:
    """A callable that gets a loader's statistics, and how often: for ``Monitoring(metrics=...)``.

    It is called in the thread of the training loop when a batch is handed over, and once more when the loop ends.

    Args:
        call: Gets a `Stats`; what it returns is left alone.
        steps: After every so many steps.
        seconds: With the first batch after so many seconds. One of both must be given.
        scope: Of which time: "epoch" is that of the present loop, "run" all since the loader was made. None takes what
            the callable has as its attribute `scope`, and "epoch" if it has none.

    Raises:
        LoaderError: One of these cannot work.

    Example:
        >>> rates = []
        >>> every = Every(lambda stats: rates.append(stats.images_per_second), steps=2)
        >>> photos = open_dataset("photos/")
        >>> loader = Loader(photos, Recipe.imagenet_train(size=64), batch_size=8, monitoring=Monitoring(metrics=every))
        >>> for batch in loader:
        ...     pass
        >>> len(rates) >= len(loader) // 2
        True
    """

    call: Call
    _: KW_ONLY
    steps: int | None = None
    seconds: float | None = None
    scope: Scope | None = None

    def __post_init__(self) -> None:
        _require_callable(self.call)
        if (self.steps is None) == (self.seconds is None):
            raise LoaderError(
                f"Every(steps={self.steps}, seconds={self.seconds}): give one of both, as in Every(call, steps=100)"
            )
        _require_number("steps", self.steps, whole=True)
        _require_number("seconds", self.seconds, whole=False)
        if self.scope not in (None, "epoch", "run"):
            raise LoaderError(f'Every(scope={self.scope!r}) is not known; give "epoch" or "run"')

    @property
    def of(self) -> Scope:
        """The scope that was chosen."""
        own = getattr(self.call, "scope", None)
        return self.scope or ("run" if isinstance(own, str) and own == "run" else "epoch")


class OfRank:
    """A callable for `Every` that is told the rank of its loader when a loop begins, unless it has one.

    Attributes:
        rank: The rank; None while that is not known.
    """

    rank: int | None = None


def as_metrics(given: object) -> tuple[Every, ...]:
    """Return what ``Monitoring(metrics=...)`` means.

    Args:
        given: None, a callable, an `Every`, or a list or tuple of these.

    Raises:
        LoaderError: It is something else.
    """
    if given is None:
        return ()
    several: Sequence[Any] = given if isinstance(given, list | tuple) else [given]
    return tuple(one if isinstance(one, Every) else Every(one, seconds=_SECONDS) for one in several)


Metric = Call | Every
"""What ``Monitoring(metrics=...)`` takes, one or several."""


class Metrics:
    """Calls the callables of a loader when it is time.

    Args:
        every: They, and how often.
        stats: Returns the statistics of a scope.
    """

    def __init__(self, every: Sequence[Every], stats: Callable[[Scope], Stats]) -> None:
        self._due = [_Due(one) for one in every]
        self._stats = stats

    def begin(self, rank: int) -> None:
        """A loop of this rank begins."""
        for due in self._due:
            due.begin()
            call: object = due.every.call
            if isinstance(call, OfRank) and call.rank is None:
                call.rank = rank

    def count(self) -> None:
        """A batch is about to be handed over."""
        for due in self._due:
            due.count()
            if due.is_over():
                self._call(due)

    def finish(self) -> None:
        """The loop is over: hand over what came since the last time."""
        for due in self._due:
            if due.steps:
                self._call(due)

    def _call(self, due: "_Due") -> None:
        due.begin()
        try:
            due.every.call(self._stats(due.every.of))
        except Exception as error:  # noqa: BLE001 - a dashboard must not end a run, whatever it raises
            _log.debug("metrics=%s failed", _named(due.every.call), exc_info=True)
            if not due.failed:
                due.failed = True
                _warn(due.every, error)


class _Due:
    """When a callable is called next."""

    def __init__(self, every: Every) -> None:
        self.every, self.failed = every, False
        self.begin()

    def begin(self) -> None:
        """Count from here."""
        self.steps, self.since = 0, 0.0

    def count(self) -> None:
        """A batch is handed over; with the first one time begins."""
        if not self.since:
            self.since = time.monotonic()
        self.steps += 1

    def is_over(self) -> bool:
        """Whether it is time."""
        if self.every.steps is not None:
            return self.steps >= self.every.steps
        assert self.every.seconds is not None
        return time.monotonic() - self.since >= self.every.seconds


def _warn(every: Every, error: Exception) -> None:
    place = inspect.getinnerframes(error.__traceback__)[-1] if error.__traceback__ else None
    where = f" in {place.filename}, line {place.lineno}" if place else ""
    warnings.warn(
        f"metrics={_named(every.call)} raised {type(error).__name__}: {error}{where}; the run goes on, and it is called again, "
        "but this is said once: mend it or leave metrics out (logging.DEBUG of the logger gpu_aug has every traceback)",
        UserWarning,
        stacklevel=_LOOP,
    )


def _named(call: object) -> str:
    return getattr(call, "__qualname__", None) or repr(call)


def _require_callable(call: object) -> None:
    if inspect.isclass(call):
        raise LoaderError(
            f"metrics={call.__name__} is a class: give an object of it, as in {call.__name__}(...)"
        )
    if not callable(call):
        raise LoaderError(
            f"metrics={call!r} is of type {type(call).__name__}; give a callable that takes Stats, an Every, a list of "
            "these, or an adapter of dali_pipes.integrations.metrics"
        )
    if inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(type(call).__call__):
        raise LoaderError(
            f"metrics={call!r} is a coroutine function, which nobody would await; give a plain function"
        )


def _require_number(name: str, value: object, *, whole: bool) -> None:
    if value is None:
        return
    number = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
    if not number or not 0 < value < math.inf:  # type: ignore[operator]
        kind = "a whole number from 1 on" if whole else "a number above 0"
        raise LoaderError(f"Every({name}={value!r}) must be {kind}")
