"""Read the audit files of a run: which of its steps count after all resumes.

Each attempt of a run loads the state of an earlier attempt, which its first line names. So the attempts form a tree. Of
several attempts from one state, the run went on with the latest: the one that comes last in a file that has both, else
the one that came furthest. The names decide, not the clocks of the machines (DECISIONS.md, "Attempts of a run").
"""

import glob
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dali_pipes.errors import LoaderError

IDENTITY = ("dataset", "length", "recipe", "seed", "shuffle", "order")
"""Keys of a begin line that identify a run; runs that differ in one of them are reported as different."""

_NUMBERS = ("epoch", "step", "rank", "world_size", "start", "stop", "count")
_HASHES = ("samples", "places")

_ROOT = ""
"""Name of the attempt before all others: it holds step lines without a begin line in front of them."""


@dataclass(frozen=True, slots=True)
class StepLine:
    """A line of an audit: what one rank received in one step.

    Attributes:
        epoch: Number of the epoch, from 0.
        step: Number of the step, counted from where its loop began.
        rank: The rank that wrote the line.
        world_size: Number of ranks.
        start: First position of the epoch's order.
        stop: One after the last position.
        count: Number of samples; fewer than positions if bad samples were skipped.
        samples: Sum of a hash of each sample index.
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
class BeginLine:
    """A line of an audit: a rank started, or resumed from a state.

    Attributes:
        start: Epoch, and number of its positions that were handed over before.
        world_size: Number of ranks.
        run: Identity of the run, by the names of IDENTITY.
        had: The positions that were handed over before, as (start, stop), half open; one pair for each bucket.
        attempt: Name of the attempt; "" if the line has none.
        after: Name of the attempt whose state was loaded; "" if none was loaded.
    """

    start: tuple[int, int]
    world_size: int
    run: dict[str, Any]
    had: tuple[tuple[int, int], ...]
    attempt: str
    after: str

    def comes_after(self, step: StepLine) -> bool:
        """Whether a step was handed over before this start, so that this attempt does not repeat it."""
        if step.epoch != self.start[0]:
            return step.epoch < self.start[0]
        return any(low <= step.start < high for low, high in self.had)


@dataclass
class History:
    """The steps of a run that count: each resume replaces the steps after the state that it loaded.

    Attributes:
        name: The files, folders or patterns that were read.
        epochs: Step lines of each epoch, ordered by position.
        run: Identity of the run (dataset, recipe, seed and so on) at its last begin line.
        buckets: The position at which each bucket ends; empty without buckets.
        num_steps: Number of step lines that count.
        num_superseded: Number of step lines after a state that the run later went back to.
        num_torn: Number of incomplete lines.
        attempts: Names of the attempts in these files.
        after: Names of the attempts from which an attempt in these files loaded a state. Such an attempt can be in these
            files or in others.
        world_sizes: Every number of ranks that the run had, ascending.
    """

    name: str
    epochs: dict[int, list[StepLine]]
    run: dict[str, Any]
    buckets: tuple[int, ...]
    num_steps: int
    num_superseded: int
    num_torn: int
    attempts: frozenset[str]
    after: frozenset[str]
    world_sizes: list[int]

    def continues(self, other: "History") -> bool:
        """Whether an attempt of this history loaded a state of the other one, so that both are one run."""
        return bool(self.after & (other.attempts - self.attempts))

    def ends(self) -> tuple[int, ...]:
        """Return where the positions of an epoch end, or those of each bucket; empty if the audit does not say."""
        length = self.run.get("length")
        return self.buckets or (() if length is None else (int(length),))


@dataclass
class _Attempt:
    """The lines of one attempt, in all files.

    Attributes:
        name: Name of the attempt.
        after: Name of the attempt whose state it loaded.
        before: Name of the attempt in front of it in a file. It counts as the parent if `after` is unknown.
        begin: Its begin line; the earliest if its ranks do not agree.
        steps: Its step lines, by file.
        numbers: Its number among the attempts of each file that has it, from 1.
    """

    name: str
    after: str = _ROOT
    before: str = _ROOT
    begin: BeginLine | None = None
    steps: dict[int, list[StepLine]] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)

    def reach(self) -> tuple[int, int]:
        """Return the furthest epoch and position."""
        steps = (step for steps in self.steps.values() for step in steps)
        return max(((step.epoch, step.stop) for step in steps), default=(-1, 0))


Children = Mapping[str, Sequence[_Attempt]]


def read_history(*sources: str) -> History:
    """Read audit files as one run.

    An attempt that starts at a position replaces all steps after that position, also those of ranks that do not come
    back.

    Args:
        sources: Files, folders with .jsonl files, or patterns.

    Raises:
        LoaderError: No file exists, or none has a line of an audit or a step.
    """
    name = " and ".join(sources)
    files = [list(read_lines(path)) for source in sources for path in _files(source)]
    lines = [line for file in files for line in file if line is not None]
    if not lines:
        raise LoaderError(
            f"{name} holds no audit; give what Monitoring(audit='run-{{rank}}.jsonl') wrote: a file, a "
            f"folder, or a pattern in quotes"
        )
    path = _path_to_end(files)
    steps = _steps_that_count(path)
    if not steps:
        raise LoaderError(f"{name} holds no step of a run; let it take one first")
    begins = [line for line in lines if isinstance(line, BeginLine)]
    epochs: dict[int, list[StepLine]] = {}
    for step in sorted(steps, key=lambda step: (step.epoch, step.start, step.stop)):
        of_epoch = epochs.setdefault(step.epoch, [])
        if step.start < step.stop:  # else the rank had no share of the last step
            of_epoch.append(step)
    last = path[-1].begin
    return History(
        name=name,
        epochs=epochs,
        run={} if last is None else last.run,
        buckets=() if last is None else _bucket_ends(last),
        num_steps=len(steps),
        num_superseded=len(lines) - len(begins) - len(steps),
        num_torn=sum(file.count(None) for file in files),
        attempts=frozenset(begin.attempt for begin in begins) - {""},
        after=frozenset(begin.after for begin in begins) - {""},
        world_sizes=sorted({step.world_size for step in steps}),
    )


def read_lines(path: Path) -> Iterator[BeginLine | StepLine | None]:
    """Yield the lines of an audit file; None for each incomplete line."""
    for raw in path.read_bytes().split(b"\n"):
        if not raw.strip():
            continue
        try:
            yield _parse(json.loads(raw))
        except (ValueError, KeyError, TypeError):
            yield None


def _parse(saved: dict[str, Any]) -> BeginLine | StepLine:
    if "begin" not in saved:
        numbers = [int(saved[name]) for name in _NUMBERS]
        return StepLine(*numbers, *(int(saved[name], 16) for name in _HASHES))
    epoch, consumed = map(int, saved["begin"])
    return BeginLine(
        start=(epoch, consumed),
        world_size=int(saved["world_size"]),
        run={name: saved[name] for name in IDENTITY if name in saved},
        had=tuple((int(low), int(high)) for low, high in saved.get("had", [[0, consumed]])),
        attempt=str(saved.get("attempt", "")),
        after=str(saved.get("after", "")),
    )


def _files(source: str) -> list[Path]:
    path = Path(source)
    if path.is_dir():
        files = sorted(path.glob("*.jsonl"))
    elif path.is_file():
        files = [path]
    else:
        files = sorted(map(Path, glob.glob(source)))  # noqa: PTH207 - the pattern may be absolute
    if not files:
        raise LoaderError(
            f"{source} names no audit files; give a file, a folder with .jsonl files, or a pattern in quotes"
        )
    return files


def _bucket_ends(begin: BeginLine) -> tuple[int, ...]:
    """Return where each bucket ends: where the next one starts, the last one at the end of the epoch."""
    starts = [low for low, _ in begin.had[1:]]
    return (*starts, int(begin.run.get("length", 0))) if starts else ()


def _path_to_end(files: Sequence[Sequence[BeginLine | StepLine | None]]) -> list[_Attempt]:
    """Return the attempts that led to the end of the run, from the root on."""
    attempts = {_ROOT: _Attempt(_ROOT)}
    for number, lines in enumerate(files):
        _add_file(attempts, number, lines)
    children: dict[str, list[_Attempt]] = {}
    for attempt in attempts.values():
        if attempt.name != _ROOT:
            parent = attempt.after if attempt.after in attempts else _ROOT
            children.setdefault(parent or attempt.before, []).append(attempt)
    path = [attempts[_ROOT]]
    while siblings := children.get(path[-1].name):
        path.append(_latest(siblings, children))
    return path


def _add_file(
    attempts: dict[str, _Attempt], number: int, lines: Sequence[BeginLine | StepLine | None]
) -> None:
    """Add the lines of one file to the attempts."""
    before, count = _ROOT, 0
    steps = attempts[_ROOT].steps.setdefault(number, [])
    for line in lines:
        if isinstance(line, StepLine):
            steps.append(line)
        elif line is not None:
            # Without a name, ranks that started together have the same position and number of ranks.
            name = line.attempt or f"{line.start, line.world_size}"
            attempt = attempts.setdefault(name, _Attempt(name))
            attempt.after = line.after or attempt.after
            if before != name:
                attempt.before = attempt.before or before
            if attempt.begin is None or line.start < attempt.begin.start:
                attempt.begin = line
            # A name that comes again started again from the same state: only its last steps count.
            attempt.steps[number] = steps = []
            attempt.numbers[number] = count = count + 1
            before = name


def _latest(siblings: Sequence[_Attempt], children: Children) -> _Attempt:
    """Return the attempt that the run went on with, of several that loaded the same state."""
    trees = {one.name: _with_descendants(one, children) for one in siblings}
    # Sorted pairs of (file, number): a dictionary keeps the last number in each file.
    last = {
        name: dict(sorted(pair for one in tree for pair in one.numbers.items()))
        for name, tree in trees.items()
    }

    def priority(sibling: _Attempt) -> tuple[bool, tuple[int, int], str]:
        own = last[sibling.name]
        is_last = all(
            number <= own.get(file, number)
            for numbers in last.values()
            for file, number in numbers.items()
        )
        return is_last, max(one.reach() for one in trees[sibling.name]), sibling.name

    return max(siblings, key=priority)


def _with_descendants(attempt: _Attempt, children: Children) -> list[_Attempt]:
    tree = [attempt]
    for one in tree:  # also visits what it appends
        tree += children.get(one.name, [])
    return tree


def _steps_that_count(path: Sequence[_Attempt]) -> list[StepLine]:
    """Return the steps of each attempt that come before the starts of all later attempts."""
    result: list[StepLine] = []
    limits: list[BeginLine] = []  # of the later attempts, those that went back to the lowest epoch
    for attempt in reversed(path):
        for steps in attempt.steps.values():
            result += [step for step in steps if all(limit.comes_after(step) for limit in limits)]
        if attempt.begin is not None:
            limits.append(attempt.begin)
            epoch = min(limit.start[0] for limit in limits)
            limits = [limit for limit in limits if limit.start[0] == epoch]
    return result
