"""The lines of an audit: what one rank was handed in a step, and where it began."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_NUMBERS = ("epoch", "step", "rank", "world_size", "start", "stop", "count")
_HASHES = ("samples", "places")
IDENTITY = ("dataset", "length", "recipe", "seed", "shuffle", "order")


@dataclass(frozen=True, slots=True)
class Part:
    """One line: what one rank was handed in one step.

    Attributes:
        epoch: Counts from 0.
        step: Counts from where its loop began.
        rank: The rank that wrote it.
        world_size: Number of ranks.
        start: First position of the epoch's order.
        stop: One after the last.
        count: Samples; fewer than positions where some were skipped.
        samples: Sum of a hash of each index.
        places: Sum of a hash of each (epoch, position, index).
    """

    epoch: int
    step: int
    rank: int
    world_size: int
    start: int
    stop: int
    count: int
    samples: int
    places: int


@dataclass(frozen=True, slots=True)
class Begin:
    """One line: a rank started, or went on with a state.

    Attributes:
        start: Epoch, and how many of its positions came before.
        rank: The rank that wrote it.
        world_size: Number of ranks.
        time: Seconds since 1970.
        run: What identified the run.
        had: These positions, start and stop (half open): of each bucket, where there are buckets.
        attempt: Its name; "" in files of earlier versions.
        after: Name of the attempt whose state was loaded; "" if none was, or it has none.
    """

    start: tuple[int, int]
    rank: int
    world_size: int
    time: float
    run: dict[str, Any]
    had: tuple[tuple[int, int], ...]
    attempt: str = ""
    after: str = ""

    @property
    def key(self) -> tuple[tuple[int, int], int]:
        """The same on all ranks that started together."""
        return self.start, self.world_size

    def follows(self, part: Part) -> bool:
        """Whether a step lies before this."""
        if part.epoch != self.start[0]:
            return part.epoch < self.start[0]
        return any(low <= part.start < high for low, high in self.had)


Line = Begin | Part


def read_lines(path: Path) -> Iterator[Line | None]:
    """Read an audit file; None for each line that is not whole."""
    for raw in path.read_bytes().split(b"\n"):
        if not raw.strip():
            continue
        try:
            yield _line(json.loads(raw))
        except (ValueError, KeyError, TypeError):
            yield None


def _line(saved: dict[str, Any]) -> Line:
    if "begin" in saved:
        epoch, consumed = map(int, saved["begin"])
        run = {name: saved[name] for name in IDENTITY if name in saved}
        had = tuple((int(low), int(high)) for low, high in saved.get("had", [[0, consumed]]))
        names = str(saved.get("attempt", "")), str(saved.get("after", ""))
        start = epoch, consumed
        return Begin(start, saved["rank"], saved["world_size"], saved["time"], run, had, *names)
    numbers = [int(saved[name]) for name in _NUMBERS]
    return Part(*numbers, *(int(saved[name], 16) for name in _HASHES))
