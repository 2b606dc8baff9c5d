"""All candidates of a search, each with its loader."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

from bench.tune.candidates import Candidate
from bench.tune.heat import Turn
from bench.tune.trial import Trial
from dali_pipes import BadSampleError, Loader
from dali_pipes.stats.stats import Stats

MakeLoader = Callable[[Mapping[str, Any]], Loader]
"""Makes a loader with these settings, on top of what the user gave."""


class Trials:
    """Loaders that take turns; see Trial.

    Args:
        make: Makes them.
        step_seconds: How long a training step takes; 0 takes batches as fast as they come.
        prefetch: Batches that a loader makes ahead where its settings do not say.
        apart: Whether each begins with an epoch of its own.

    Attributes:
        candidates: Those that could be opened, by name.
        absent: Why others could not, by name.
        stats: What the loader of each did in its latest turn, by name.
    """

    def __init__(
        self, make: MakeLoader, *, step_seconds: float, prefetch: int, apart: bool
    ) -> None:
        self._make, self._step_seconds = make, step_seconds
        self._prefetch, self._apart = prefetch, apart
        self._open: dict[str, Trial] = {}
        self.candidates: dict[str, Candidate] = {}
        self.absent: dict[str, str] = {}
        self.stats: dict[str, Stats] = {}

    def open(self, candidate: Candidate, *, needed: bool = False) -> bool:
        """Make the loader of a candidate and let it make a batch; says whether that could be done.

        Args:
            candidate: Nothing happens if it is open.
            needed: Whether what is wrong with it is an error of the search.

        Raises:
            dali_pipes.BadSampleError: It met a bad sample, which no settings would have spared it.
        """
        name = candidate.name
        if name in self._open:
            return True
        trial = Trial(
            lambda: self._make(candidate.settings),
            step_seconds=self._step_seconds,
            prefetch=int(candidate.settings.get("prefetch", self._prefetch)),
            epoch=len(self.candidates) if self._apart else 0,
        )
        try:
            trial.open()
        except Exception as error:
            trial.close()
            if needed or isinstance(error, BadSampleError):
                raise
            self.absent[name] = " ".join(str(error).split()) or type(error).__name__
            return False
        self._open[name], self.candidates[name] = trial, candidate
        return True

    def turn(self, name: str, seconds: float) -> Turn:
        """Let one work for so long."""
        turn = self._open[name].turn(seconds)
        self.stats[name] = self._open[name].stats
        return turn

    def free_turn(self, name: str, seconds: float) -> Turn:
        """The same, by a consumer that takes batches as fast as they come."""
        return self._open[name].turn(seconds, step_seconds=0.0)

    def drop(self, name: str) -> None:
        """End one, so that it has no memory or process any more."""
        if (trial := self._open.pop(name, None)) is not None:
            trial.close()

    def keep(self, names: Iterable[str]) -> None:
        """End all others."""
        kept = set(names)
        for name in [name for name in self._open if name not in kept]:
            self.drop(name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.keep(())
