"""Functions timed in turns, so that noise affects all of them equally."""

import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

from bench.compare.timer import rotated
from gpu_aug.compiled.clock import clock

Work = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Turns:
    """Seconds per call, one number per turn."""

    runs: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle of the turns, in seconds."""
        return median(self.runs)

    def to_dict(self, unit_seconds: float = 1e-3) -> dict[str, object]:
        """Median, smallest, largest and every turn, in multiples of a unit; milliseconds by default."""
        runs = [run / unit_seconds for run in self.runs]
        return {
            "median": round(median(runs), 5),
            "min": round(min(runs), 5),
            "max": round(max(runs), 5),
            "runs": [round(run, 5) for run in runs],
        }


def take_turns(
    works: Mapping[str, Work], *, turns: int, seconds: float, finish: Callable[[], None]
) -> dict[str, Turns]:
    """Call functions over and over, one after the other in every turn.

    Args:
        works: Functions without arguments, by name; each has been called before.
        turns: How often each is timed.
        seconds: How long a turn of one function lasts; it is called at least once.
        finish: Waits until everything asked for has really been computed (a device synchronisation).

    Returns:
        For every name the seconds per call in each of its turns.
    """
    runs: dict[str, list[float]] = {name: [] for name in works}
    gc.collect()
    gc.freeze()  # what is there already is not looked at before every turn
    try:
        for turn in range(turns):
            for name in rotated(list(works), turn):
                runs[name].append(_seconds_per_call(works[name], seconds, finish))
    finally:
        gc.unfreeze()
    return {name: Turns(tuple(own)) for name, own in runs.items()}


def _seconds_per_call(work: Work, seconds: float, finish: Callable[[], None]) -> float:
    gc.collect()
    finish()
    calls, began = 0, clock()
    while True:
        work()
        calls += 1
        if clock() - began >= seconds:
            finish()
            return (clock() - began) / calls
