"""Read the log of ``gpu-aug run --log``."""

import json
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.output.errors import BenchError

MOST_INTERVALS = 400
"""Largest number of time intervals in a chart: more would be narrower than its pixels. Longer logs have longer
intervals."""

MOST_BAD = 10_000
"""Largest count of bad samples that are stored; further ones are only counted."""

_MOST_EPOCHS = 10_000
_LARGEST = 1e100  # differences and ratios of smaller numbers are finite
_FIRST_BYTES = 1 << 22  # the first line must end within these bytes
_START = b'{"kind": "run"'

Object = Mapping[str, Any]


@dataclass(frozen=True)
class Timeline:
    """The counts of a run over time, in N successive intervals.

    Attributes:
        edges: Bounds of the intervals in seconds since the start of the run, [N + 1].
        counts: The counts at these bounds, [N + 1]; empty at the start of the run.
        lowest: Samples per second of the slowest line in each interval, [N].
        highest: Samples per second of the fastest line in each interval, [N].
    """

    edges: NDArray[np.float64]
    counts: Sequence[Object]
    lowest: NDArray[np.float64]
    highest: NDArray[np.float64]

    def gained_per_second(self, *names: str) -> NDArray[np.float64]:
        """Return for each interval by how much a count grew per second, at least 0.

        Args:
            names: The names that lead to the count in nested objects, from the outside.
        """
        values = [number_of(one, *names) for one in self.counts]
        return np.maximum(np.diff(values), 0) / np.diff(self.edges)


@dataclass
class RunLog:
    """The log of a run.

    Attributes:
        path: Path of the log.
        start: The first line of the log: data, recipe, settings, versions, machine.
        last: The last counts of the run in the log; empty if the log has no counts.
        epochs: For each epoch, the time in seconds at which it was first seen, and the epoch.
        bad: Lines about bad samples, at most `MOST_BAD`.
        num_bad: Count of all lines about bad samples.
        end: The last line of the log; None if the run was killed or is still running.
        is_torn: Whether the last line is incomplete.
        unreadable: Line numbers of the lines that are not JSON objects.
        num_others: Count of lines of unknown kinds.
    """

    path: Path
    start: Object
    last: Object = field(default_factory=dict)
    epochs: list[tuple[float, int]] = field(default_factory=list)
    bad: list[Object] = field(default_factory=list)
    num_bad: int = 0
    end: Object | None = None
    is_torn: bool = False
    unreadable: list[int] = field(default_factory=list)
    num_others: int = 0
    # Only 16 bytes per line stay in memory, because the log of a month has 2.6 million lines.
    _times: "array[float]" = field(default_factory=lambda: array("d", [0]))
    _samples: "array[float]" = field(default_factory=lambda: array("d", [0]))
    _edges: list[Object] = field(default_factory=list)
    _lines_each: int = 1  # number of lines per interval

    @property
    def seconds(self) -> float:
        """Seconds from the start of the run to its last counts."""
        return self._times[-1]

    def add(self, line: Object) -> None:
        """Add one line of the log, as a JSON object."""
        kind = line.get("kind")
        if kind == "stats":
            self._add_stats(line)
        elif kind == "bad_sample":
            self.num_bad += 1
            if len(self.bad) < MOST_BAD:
                self.bad.append(line)
        elif kind == "end":
            self.end = line
        elif kind != "run":
            self.num_others += 1

    def _add_stats(self, line: Object) -> None:
        at, epoch = number_of(line, "at"), int(number_of(line, "epoch"))
        is_new = not self.epochs or self.epochs[-1][1] != epoch
        if is_new and "epoch" in line and len(self.epochs) < _MOST_EPOCHS:
            self.epochs.append((at, epoch))
        if at <= self.seconds:
            return
        self._times.append(at)
        self._samples.append(number_of(line, "samples"))
        self.last = line
        if (len(self._times) - 1) % self._lines_each == 0:
            self._edges.append(line)
        if len(self._edges) >= MOST_INTERVALS:
            # Counts are cumulative, so every second one can be dropped.
            self._edges = self._edges[1::2]
            self._lines_each *= 2

    def timeline(self) -> Timeline:
        """Return the counts over time; the log must have at least one line with counts."""
        times, num = np.array(self._times), len(self._times) - 1
        ends = [*range(0, num, self._lines_each), num]
        rates = np.maximum(np.diff(self._samples), 0) / np.diff(times)
        return Timeline(
            times[ends],
            [{}, *self._edges[: len(ends) - 2], self.last],
            np.minimum.reduceat(rates, ends[:-1]),
            np.maximum.reduceat(rates, ends[:-1]),
        )


def number_of(counts: Object, *names: str) -> float:
    """Return a number in nested objects; 0 if it is missing or not a finite number."""
    value: Any = counts
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # NaN fails these comparisons.
    return float(value) if is_number and -_LARGEST < value < _LARGEST else 0.0


def object_of(counts: Object, name: str) -> Object:
    """Return the JSON object with a name inside another one; an empty one if it is missing."""
    value = counts.get(name)
    return value if isinstance(value, Mapping) else {}


def is_run_log(source: str) -> bool:
    """Return whether a source is a file that starts like a log, not data.

    Example:
        >>> from bench.report.log import is_run_log
        >>> is_run_log("photos.csv")
        False
    """
    try:
        with Path(source).open("rb") as file:
            return file.read(len(_START)).replace(b'":"', b'": "').startswith(_START)
    except (OSError, ValueError):  # the source is a URL, a pattern or a folder
        return False


def read_log(path: Path) -> RunLog:
    """Read a log in one pass.

    Raises:
        BenchError: The log cannot be read, or its first line is not a complete line about a run.
    """
    try:
        with path.open("rb") as file:
            start = _object(file.readline(_FIRST_BYTES))
            if start is None or start.get("kind") != "run":
                raise BenchError(
                    f"{path} is no whole log of a run, which begins with a line about it: give one that "
                    "gpu-aug run --log wrote"
                )
            log = RunLog(path, start)
            for number, line in enumerate(file, 2):
                if (found := _object(line)) is not None:
                    log.add(found)
                elif not line.endswith(b"\n"):
                    log.is_torn = True
                elif line.strip():
                    log.unreadable.append(number)
    except OSError as error:
        raise BenchError(
            f"{path} cannot be read ({error.strerror}): give a log that gpu-aug run --log wrote"
        ) from None
    return log


def _object(line: bytes) -> Object | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
