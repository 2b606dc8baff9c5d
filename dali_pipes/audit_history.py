"""What a run handed over in the end, read from the audit files of its ranks."""

import glob
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dali_pipes.audit_attempts import path_to_end, remaining
from dali_pipes.audit_lines import Begin, Line, Part, read_lines
from dali_pipes.errors import LoaderError


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
        attempts: Names of the attempts.
        after: Names of the attempts whose states were loaded, of these files or of others.
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
    attempts: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    world_sizes: list[int] = field(default_factory=list)

    @property
    def num_attempts(self) -> int:
        """How often the run was started or went back to a state, as far as attempts have names."""
        return len(self.attempts)

    def continues(self, other: "History") -> bool:
        """Whether this began with a state of the other, so that both are one run."""
        return bool(self.after & (other.attempts - self.attempts))


def read_history(*sources: str) -> History:
    """Read files, the .jsonl files of folders, or those that patterns name, as one run.

    A rank that starts, or goes on with a state, has lost what lay behind that position, and so have all the ranks of
    the attempt before, whether they come back or not. Which attempt goes on from which one is told by their names;
    files of earlier versions have none, and their ranks' clocks decide.

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
            f"{source} holds no audit; give what Loader(audit='run-{{rank}}.jsonl') wrote: a file, a "
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
    """Take from the last begin what identifies the run."""
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
    """Where the first attempt begins that has a name; the number of lines if none does."""
    named = (n for n, line in enumerate(lines) if isinstance(line, Begin) and line.attempt)
    return next(named, len(lines))


def _by_clocks(files: Sequence[Sequence[Line]]) -> list[Part]:
    """Return what remains of lines whose attempts have no names.

    A rank that begins replaces its own lines behind that position. Those of a rank that did not come back with the
    others are replaced by theirs; who came when is told by their clocks.
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
