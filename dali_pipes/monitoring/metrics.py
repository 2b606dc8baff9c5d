"""Call the user's functions that receive a loader's statistics while a loop runs (metrics)."""

import inspect
import logging
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from dali_pipes.arguments.values import require_above_zero, require_one_of, require_positive
from dali_pipes.errors import LoaderError
from dali_pipes.monitoring.loop import Scope
from dali_pipes.monitoring.stats import Stats

_log = logging.getLogger(f"gpu_aug.{__name__}")

_SECONDS = 10.0
"""Default seconds between two calls: enough points for a dashboard. A call takes 0.1 ms plus the time of the
callable."""

_FRAMES_TO_LOOP = 7
"""Stack frames from the user's loop to a warning of this module, so that the warning points to the loop."""

Call = Callable[[Stats], object]


@dataclass(frozen=True, slots=True)
class Every:
    """A callable that receives a loader's statistics at an interval, for ``Monitoring(metrics=...)``.

    It is called in the thread of the training loop when a batch is handed over, and once more when the loop ends.

    Args:
        call: Receives a `Stats`; its result is ignored.
        steps: Steps between two calls.
        seconds: Seconds between two calls; each call happens at the next batch. Give either steps or seconds.
        scope: "epoch" for statistics of the present loop, "run" for statistics since the loader was made. None uses the
            callable's attribute `scope`, or "epoch" without one.

    Raises:
        LoaderError: An argument is not allowed.

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
        if self.steps is not None:
            require_positive(steps=self.steps)
        if self.seconds is not None:
            require_above_zero(seconds=self.seconds)
        require_one_of("scope", self.scope, (None, "epoch", "run"))

    @property
    def of(self) -> Scope:
        """The scope of the statistics: `scope`, or the callable's attribute, or "epoch"."""
        own = getattr(self.call, "scope", None)
        return self.scope or ("run" if isinstance(own, str) and own == "run" else "epoch")


class OfRank:
    """Base class of callables that need the loader's rank; the loader sets it when a loop begins.

    Attributes:
        rank: The rank; None until it is known.
    """

    rank: int | None = None


def as_metrics(given: object) -> tuple[Every, ...]:
    """Return the argument ``Monitoring(metrics=...)`` as a tuple of `Every`.

    Args:
        given: None, a callable, an `Every`, or a list or tuple of these.

    Raises:
        LoaderError: The argument has another type.
    """
    if given is None:
        return ()
    several: Sequence[Any] = given if isinstance(given, list | tuple) else [given]
    return tuple(one if isinstance(one, Every) else Every(one, seconds=_SECONDS) for one in several)


Metric = Call | Every
"""One item of ``Monitoring(metrics=...)``."""


class Metrics:
    """Calls a loader's callables when they are due.

    Args:
        every: The user's callables with their intervals.
        stats: Returns the statistics of a scope.
    """

    def __init__(self, every: Sequence[Every], stats: Callable[[Scope], Stats]) -> None:
        self._calls = [_Call(one) for one in every]
        self._stats = stats

    def begin(self, rank: int) -> None:
        """Start a loop of this rank."""
        for call in self._calls:
            call.begin()
            function: object = call.every.call
            if isinstance(function, OfRank) and function.rank is None:
                function.rank = rank

    def count(self) -> None:
        """Count a batch that is about to be handed over, and call the callables that are due."""
        for call in self._calls:
            if call.count():
                self._run(call)

    def finish(self) -> None:
        """End a loop: call every callable that has not received the last step."""
        for call in self._calls:
            if call.steps:
                self._run(call)

    def _run(self, call: "_Call") -> None:
        call.begin()
        function = call.every.call
        try:
            function(self._stats(call.every.of))
        except Exception as error:  # noqa: BLE001 - a dashboard must not end a run, whatever it raises
            name = getattr(function, "__qualname__", None) or repr(function)
            _log.debug("metrics=%s failed", name, exc_info=True)
            if not call.has_failed:
                call.has_failed = True
                frame = inspect.getinnerframes(error.__traceback__)[-1]  # type: ignore[arg-type]
                warnings.warn(
                    f"metrics={name} raised {type(error).__name__}: {error} in {frame.filename}, line {frame.lineno}; the run "
                    "continues and calls it again, but this warning comes once: fix it or leave metrics out (logging.DEBUG of "
                    "the logger gpu_aug has every traceback)",
                    UserWarning,
                    stacklevel=_FRAMES_TO_LOOP,
                )


class _Call:
    """A user's callable, with the steps and the time since it was last called."""

    def __init__(self, every: Every) -> None:
        self.every, self.has_failed = every, False
        self.begin()

    def begin(self) -> None:
        """Start counting steps and time."""
        self.steps, self.since = 0, 0.0

    def count(self) -> bool:
        """Count a batch and return whether the callable is due; time starts with the first batch."""
        if not self.since:
            self.since = time.monotonic()
        self.steps += 1
        if self.every.steps is not None:
            return self.steps >= self.every.steps
        assert self.every.seconds is not None
        return time.monotonic() - self.since >= self.every.seconds


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
            f"metrics={call!r} is a coroutine function, which would never be awaited; give a plain function"
        )
