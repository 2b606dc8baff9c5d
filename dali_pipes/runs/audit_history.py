"""What a run handed over in the end, read from the audit files of its ranks."""

import glob
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dali_pipes.errors import LoaderError
from dali_pipes.runs.audit_attempts import path_to_end, remaining
from dali_pipes.runs.audit_lines import Begin, Line, Part, read_lines


@dataclass
class History:
    """The steps of a run that count: each resume replaces the steps after the state that it loaded.

    Attributes:
        name: The files, folders or patterns that were read.
        epochs: Parts of each epoch, ordered by position.
        run: The identity of the run (dataset, recipe, seed and so on) at its last begin.
        buckets: The position at which each bucket ends; empty where there are no buckets.
        num_begins: Number of times that a rank began.
        num_steps: Number of lines that count.
        num_superseded: Number of lines after a state that the run later went back to.
        num_torn: Number of incomplete lines.
        attempts: Names of the attempts in these files.
        after: Names of the attempts from which an attempt in these files loaded a state. Such an attempt can be in these
            files or in other ones.
        world_sizes: Every number of ranks that the run had, ascending.
    """

    name: str
    epochs: dict[int, list[Part]] = field(default_factory=dict)
    run: dict[str, Any] = field(default_factory=dict)
    buckets: tuple[int, ...] = ()
    num_begins: int = 0
    num_steps: int = 0
    num_superseded: int = 0
    num_torn: int = 0
    attempts: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    world_sizes: list[int] = field(default_factory=list)

    @property
    def num_attempts(self) -> int:
        """Number of starts and resumes of the run; attempts without names do not count."""
        return len(self.attempts)

    def continues(self, other: "History") -> bool:
        """Whether an attempt of this history loaded a state of the other one, so that both are one run."""
        return bool(self.after & (other.attempts - self.attempts))


def read_history(*sources: str) -> History:
    """Read files, the .jsonl files of folders, or the files that patterns match, as one run.

    A rank that starts or resumes at a position replaces all steps after that position, also those of the other ranks of
    the attempt before, whether these come back or not. The names of the attempts say which one continues which. Files
    of earlier versions have no names; there the ranks' clocks decide.

    Raises:
        LoaderError: There is no such file, or no line of an audit in them.
    """
    source = " and ".join(sources)
    history = History(source)
    files: list[list[Line]] = []
    for path in [path for one in sources for path in _files(one)]:
        lines = list(read_lines(path))
        files.append([line for line in lines if line is not None])
        history.num_torn += lines.count(None)
    if not any(files):
        raise LoaderError(
            f"{source} holds no audit; give what Monitoring(audit='run-{{rank}}.jsonl') wrote: a file, a "
            f"folder, or a pattern in quotes"
        )
    begins = [line for lines in files for line in lines if isinstance(line, Begin)]
    firsts = [_first_named(lines) for lines in files]
    base = _by_clocks([lines[:first] for lines, first in zip(files, firsts, strict=True)])
    path_ = path_to_end([lines[first:] for lines, first in zip(files, firsts, strict=True)], base)
    kept = remaining(path_)
    if not kept:
        raise LoaderError(f"{source} holds no step of a run; let it take one first")
    history.num_begins, history.num_steps = len(begins), len(kept)
    written = sum(isinstance(line, Part) for lines in files for line in lines)
    history.num_superseded = written - len(kept)
    history.attempts = frozenset(begin.attempt for begin in begins) - {""}
    history.after = frozenset(begin.after for begin in begins) - {""}
    history.world_sizes = sorted({part.world_size for part in kept})
    if begins:
        _describe(history, path_[-1].begin or max(begins, key=lambda begin: begin.time))
    for part in sorted(kept, key=lambda part: (part.epoch, part.start, part.stop)):
        parts = history.epochs.setdefault(part.epoch, [])
        if part.start < part.stop:  # else it was a rank without a share of the last step
            parts.append(part)
    return history


def _describe(history: History, latest: Begin) -> None:
    """Take the identity of the run from its last begin."""
    history.run = latest.run
    # Buckets follow one another: each ends where the next one begins.
    starts = [low for low, _ in latest.had] if len(latest.had) > 1 else []
    history.buckets = (*starts[1:], int(latest.run.get("length", 0))) if starts else ()


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


def _first_named(lines: Sequence[Line]) -> int:
    """Return the index of the first line that begins a named attempt, len(lines) without one."""
    named = (n for n, line in enumerate(lines) if isinstance(line, Begin) and line.attempt)
    return next(named, len(lines))


def _by_clocks(files: Sequence[Sequence[Line]]) -> list[Part]:
    """Return the parts that count of attempts without names.

    A rank that begins at a position replaces its own lines after that position. The lines of a rank that did not come
    back are replaced by those of the other ranks. The ranks' clocks say which one began later.
    """
    ranks: dict[int, list[Line]] = {}
    for lines in sorted((lines for lines in files if lines), key=_first_time):
        for line in lines:
            ranks.setdefault(line.rank, []).append(line)
    begins = [line for lines in ranks.values() for line in lines if isinstance(line, Begin)]
    return [part for lines in ranks.values() for part in _remaining(lines, begins)]


def _first_time(lines: Sequence[Line]) -> float:
    return next((line.time for line in lines if isinstance(line, Begin)), 0.0)


def _remaining(lines: Sequence[Line], begins: Sequence[Begin]) -> list[Part]:
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
