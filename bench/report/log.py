"""Reading the log of ``gpu-aug run --log``."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.output.errors import BenchError

MOST_INTERVALS = 400
"""How many intervals of time are kept; a longer log has longer ones."""

MOST_BAD = 10_000
"""How many bad samples are kept; the others are counted."""

_MOST_EPOCHS = 10_000
_LARGEST = 1e100
_FIRST_BYTES = 1 << 22  # in which the first line must end
_START = b'{"kind": "run"'

Object = Mapping[str, Any]


@dataclass(frozen=True)
class Interval:
    """What happened between two lines of the log, or more of them.

    Attributes:
        began: In seconds since the start of the run.
        ended: Likewise, greater than `began`.
        before: The counts at its beginning; empty at the start of the run.
        after: The counts at its end.
        lowest: Samples per second of its slowest part.
        highest: Samples per second of its fastest part.
    """

    began: float
    ended: float
    before: Object
    after: Object
    lowest: float
    highest: float

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.ended - self.began

    @property
    def rate(self) -> float:
        """Samples per second."""
        return self.gained("samples") / self.seconds

    def gained(self, *names: str) -> float:
        """By how much a count grew, which is found by its names from the outermost on; never less than 0."""
        return max(number_of(self.after, *names) - number_of(self.before, *names), 0.0)

    def joined(self, later: "Interval") -> "Interval":
        """This one and the next as one."""
        return Interval(
            self.began,
            later.ended,
            self.before,
            later.after,
            min(self.lowest, later.lowest),
            max(self.highest, later.highest),
        )


@dataclass
class RunLog:
    """The log of a run.

    Attributes:
        path: Where it lies.
        start: Its first line: data, recipe, settings, versions, machine.
        intervals: Its counts over time, at most `MOST_INTERVALS`.
        epochs: When each epoch was first seen: (seconds, number).
        bad: Lines about bad samples, at most `MOST_BAD`.
        num_bad: How many there are.
        end: Its last line; None where the run was stopped, or is still going.
        is_torn: Whether the last line ends in the middle.
        unread: Numbers of lines that are no JSON objects.
        num_others: Lines of kinds that are not known here.
    """

    path: Path
    start: Object
    intervals: list[Interval] = field(default_factory=list)
    epochs: list[tuple[float, int]] = field(default_factory=list)
    bad: list[Object] = field(default_factory=list)
    num_bad: int = 0
    end: Object | None = None
    is_torn: bool = False
    unread: list[int] = field(default_factory=list)
    num_others: int = 0
    _lines_each: int = 1  # of an interval
    _lines_of_last: int = 0

    @property
    def last(self) -> Object:
        """The counts of the whole run, as far as the log goes; empty where it has none."""
        return self.intervals[-1].after if self.intervals else {}

    def add(self, line: Object) -> None:
        """Count a line in."""
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
        before, began = (self.last, self.intervals[-1].ended) if self.intervals else ({}, 0.0)
        if at <= began:
            return
        rate = max(number_of(line, "samples") - number_of(before, "samples"), 0.0) / (at - began)
        new = Interval(began, at, before, line, rate, rate)
        if self.intervals and self._lines_of_last < self._lines_each:
            self.intervals[-1] = self.intervals[-1].joined(new)
            self._lines_of_last += 1
            return
        if len(self.intervals) >= 2 * MOST_INTERVALS:
            self.thin_out()
        self.intervals.append(new)
        self._lines_of_last = 1

    def thin_out(self) -> None:
        """Make one interval of every two, and all later ones as long as these."""
        self._lines_each *= 2
        pairs = zip(self.intervals[::2], self.intervals[1::2], strict=False)
        left = self.intervals[-1:] if len(self.intervals) % 2 else []
        self.intervals = [first.joined(second) for first, second in pairs] + left


def number_of(counts: Object, *names: str) -> float:
    """A number in an object in an object; 0 where there is none, or nothing that can be counted or measured."""
    value: Any = counts
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and -_LARGEST < value < _LARGEST else 0.0  # NaN is neither


def object_of(counts: Object, name: str) -> Object:
    """An object in an object; an empty one where there is none."""
    value = counts.get(name)
    return value if isinstance(value, Mapping) else {}


def is_run_log(source: str) -> bool:
    """Whether a source is a file that begins as a log does, and no data.

    Example:
        >>> from bench.report.log import is_run_log
        >>> is_run_log("photos.csv")
        False
    """
    try:
        with Path(source).open("rb") as file:
            return file.read(len(_START)).replace(b'":"', b'": "').startswith(_START)
    except (OSError, ValueError):  # a URL, a pattern, a folder
        return False


def read_log(path: Path) -> RunLog:
    """Read a log, in memory that does not grow with its length.

    Raises:
        BenchError: It cannot be read, or its first line is no whole line about a run.
    """
    try:
        with path.open("rb") as file:
            first = file.readline(_FIRST_BYTES)
            start = _object(first)
            if start is None or start.get("kind") != "run":
                raise BenchError(
                    f"{path} is no whole log of a run, which begins with a line about it: give one that "
                    "gpu-aug run --log wrote"
                )
            log = RunLog(path, start)
            for number, line in enumerate(file, 2):
                _read_line(log, number, line)
    except OSError as error:
        raise BenchError(
            f"{path} cannot be read ({error.strerror}): give a log that gpu-aug run --log wrote"
        ) from None
    while len(log.intervals) > MOST_INTERVALS:
        log.thin_out()
    return log


def _read_line(log: RunLog, number: int, line: bytes) -> None:
    found = _object(line)
    if found is not None:
        log.add(found)
    elif not line.endswith(b"\n"):
        log.is_torn = True
    elif line.strip():
        log.unread.append(number)


def _object(line: bytes) -> Object | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
