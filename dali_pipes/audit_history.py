"""What a run handed over in the end, read from the audit files of its ranks."""

import glob
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dali_pipes.errors import LoaderError

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
    """

    start: tuple[int, int]
    rank: int
    world_size: int
    time: float
    run: dict[str, Any]
    had: tuple[tuple[int, int], ...]

    @property
    def key(self) -> tuple[tuple[int, int], int]:
        """The same on all ranks that started together."""
        return self.start, self.world_size

    def follows(self, part: Part) -> bool:
        """Whether a step lies before this."""
        if part.epoch != self.start[0]:
            return part.epoch < self.start[0]
        return any(low <= part.start < high for low, high in self.had)


@dataclass
class History:
    """What remains of a run once each resume has replaced what lay behind its state.

    Attributes:
        name: Where it was read.
        epochs: Parts of each epoch, by position.
        run: What identified the run when it last began.
        buckets: Where the positions of each bucket end; empty where there are no buckets.
        num_begins: How often a rank began.
        num_steps: Lines that count.
        num_superseded: Lines behind a state that the run went back to.
        num_torn: Lines that are not whole.
        world_sizes: All numbers of ranks that it had.
    """

    name: str
    epochs: dict[int, list[Part]] = field(default_factory=dict)
    run: dict[str, Any] = field(default_factory=dict)
    buckets: tuple[int, ...] = ()
    num_begins: int = 0
    num_steps: int = 0
    num_superseded: int = 0
    num_torn: int = 0
    world_sizes: list[int] = field(default_factory=list)


def read_history(source: str) -> History:
    """Read a file, the .jsonl files of a folder, or those that a pattern names.

    A rank that starts, or goes on with a state, replaces its own lines behind that position. The lines of a rank
    that did not come back with the others are replaced by theirs; who came when is told by their clocks.

    Raises:
        LoaderError: There is no such file, or no line of an audit in them.
    """
    history = History(source)
    files = [list(_lines(path, history)) for path in _files(source)]
    files = sorted((lines for lines in files if lines), key=_first_time)
    ranks: dict[int, list[Begin | Part]] = {}
    for lines in files:
        for line in lines:
            ranks.setdefault(line.rank, []).append(line)
    if not ranks:
        raise LoaderError(
            f"{source} holds no audit; give what Loader(audit='run-{{rank}}.jsonl') wrote: a file, a "
            f"folder, or a pattern in quotes"
        )
    begins = [line for lines in ranks.values() for line in lines if isinstance(line, Begin)]
    kept = [part for lines in ranks.values() for part in _remaining(lines, begins)]
    written = sum(isinstance(line, Part) for lines in ranks.values() for line in lines)
    if not kept:
        raise LoaderError(f"{source} holds no step of a run; let it take one first")
    history.num_begins, history.num_steps = len(begins), len(kept)
    history.num_superseded = written - len(kept)
    history.world_sizes = sorted({part.world_size for part in kept})
    if begins:
        latest = max(begins, key=lambda begin: begin.time)
        history.run = latest.run
        # Buckets follow one another: each ends where the next one begins.
        starts = [low for low, _ in latest.had] if len(latest.had) > 1 else []
        history.buckets = (*starts[1:], int(latest.run.get("length", 0))) if starts else ()
    for part in sorted(kept, key=lambda part: (part.epoch, part.start, part.stop)):
        parts = history.epochs.setdefault(part.epoch, [])
        if part.start < part.stop:  # else it was a rank without a share of the last step
            parts.append(part)
    return history


def _files(source: str) -> list[Path]:
    path = Path(source)
    if path.is_dir():
        found = sorted(path.glob("*.jsonl"))
    elif path.is_file():
        found = [path]
    else:
        found = sorted(map(Path, glob.glob(source)))  # noqa: PTH207 - the pattern may be absolute
    if not found:
        raise LoaderError(
            f"{source} names no audit files; give a file, a folder with .jsonl files, or a pattern in quotes"
        )
    return found


def _lines(path: Path, history: History) -> Iterator[Begin | Part]:
    for raw in path.read_bytes().split(b"\n"):
        if not raw.strip():
            continue
        try:
            yield _line(json.loads(raw))
        except (ValueError, KeyError, TypeError):
            history.num_torn += 1


def _line(saved: dict[str, Any]) -> Begin | Part:
    if "begin" in saved:
        epoch, consumed = map(int, saved["begin"])
        run = {name: saved[name] for name in IDENTITY if name in saved}
        had = tuple((int(low), int(high)) for low, high in saved.get("had", [[0, consumed]]))
        start = epoch, consumed
        return Begin(start, saved["rank"], saved["world_size"], saved["time"], run, had)
    numbers = [int(saved[name]) for name in _NUMBERS]
    return Part(*numbers, *(int(saved[name], 16) for name in _HASHES))


def _first_time(lines: list[Begin | Part]) -> float:
    return next((line.time for line in lines if isinstance(line, Begin)), 0.0)


def _remaining(lines: list[Begin | Part], begins: list[Begin]) -> list[Part]:
    """Return the parts of one rank that no resume replaced.

    Args:
        lines: Lines of that rank, as they were written.
        begins: Beginnings of all ranks.
    """
    own = {line.key for line in lines if isinstance(line, Begin)}
    foreign = [begin for begin in begins if begin.key not in own]
    kept: list[Part] = []
    limit: Begin | None = None
    for line in lines:
        if isinstance(line, Begin):
            kept = [part for part in kept if line.follows(part)]
            later = [begin for begin in foreign if begin.time > line.time]
            limit = min(later, key=lambda begin: begin.start, default=None)
        elif limit is None or limit.follows(line):
            kept.append(line)
    return kept
