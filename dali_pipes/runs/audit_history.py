"""Read the audit files of a run, and find the steps that count after all resumes.

Each attempt of a run loads the state of an earlier attempt, which its first line names. So every attempt has one
parent, and the run is the chain of parents from its last attempt back to the first. The last attempt is one that no
other attempt continues. If there are several, it is the one that comes last in its files, or else the one that came
furthest. The names decide, not the clocks of the machines (DECISIONS.md, "Attempts of a run").
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
"""Name of the attempt before all others; it contains step lines that no begin line precedes."""


@dataclass(frozen=True, slots=True)
class StepLine:
    """A line of an audit: the samples that one rank received in one step.

    Attributes:
        epoch: The epoch, counted from 0.
        step: Index of the step, counted from the start of its loop.
        rank: The rank that wrote the line.
        world_size: Count of ranks.
        start: First position, in the epoch's order, of the step.
        stop: Position after the step's last position.
        count: Count of samples; smaller than the count of positions if bad samples were skipped.
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
        start: Epoch, and count of the epoch's positions that were handed over before.
        run: Identity of the run, with the keys of IDENTITY.
        handed_over: The positions that were handed over before, as (start, stop), half open; one pair per bucket.
        attempt: Name of the attempt. Lines of early versions have no name; there, ranks belong to one attempt if they
            started at one position with one world size.
        after: Name of the attempt whose state was loaded; "" if none was loaded.
    """

    start: tuple[int, int]
    run: dict[str, Any]
    handed_over: tuple[tuple[int, int], ...]
    attempt: str
    after: str

    def comes_after(self, step: StepLine) -> bool:
        """Return whether a step was handed over before this start, so that this attempt does not repeat it."""
        if step.epoch != self.start[0]:
            return step.epoch < self.start[0]
        return any(low <= step.start < high for low, high in self.handed_over)

    def ends(self) -> tuple[int, ...]:
        """Return the end of the epoch's positions, or the ends of the buckets; empty if the line states none."""
        if "length" not in self.run:
            return ()
        return (*(low for low, _ in self.handed_over[1:]), int(self.run["length"]))


Lines = Sequence[BeginLine | StepLine]
"""The complete lines of one file."""


@dataclass(frozen=True)
class History:
    """The steps of a run that count: each resume replaces the steps after the state that it loaded.

    Attributes:
        name: The files, folders or patterns that were read.
        epochs: Step lines by epoch, ordered by position.
        run: Identity of the run (dataset, recipe, seed and so on) at its last begin line.
        ends: The end of the epoch's positions, or of the positions of each bucket; empty if the audit does not state
            it.
        num_steps: Count of the step lines that count.
        num_superseded: Count of the step lines after a state to which the run later returned.
        attempts: Names of the attempts in these files.
        after: Names of the attempts whose states were loaded by attempts in these files; they may be in these files or in others.
        world_sizes: All world sizes that the run had, ascending.
    """

    name: str
    epochs: dict[int, list[StepLine]]
    run: dict[str, Any]
    ends: tuple[int, ...]
    num_steps: int
    num_superseded: int
    attempts: frozenset[str]
    after: frozenset[str]
    world_sizes: list[int]

    def continues(self, other: "History") -> bool:
        """Return whether an attempt of this history loaded a state of the other one, so that both are one run."""
        return bool(self.after & (other.attempts - self.attempts))


@dataclass
class _Attempt:
    """The lines of one attempt, in all files.

    Attributes:
        name: Name of the attempt.
        parent: Name of the attempt that it continues; None for the root.
        begin: The attempt's begin line; the earliest one if its ranks do not agree.
        steps: The attempt's step lines, by the index of the file.
    """

    name: str
    parent: str | None = None
    begin: BeginLine | None = None
    steps: dict[int, list[StepLine]] = field(default_factory=dict)


def read_history(*sources: str) -> History:
    """Read audit files as one run.

    An attempt that starts at a position replaces all steps after that position, including those of ranks that did not restart.

    Args:
        sources: Files, folders with .jsonl files, or patterns.

    Raises:
        LoaderError: No file exists, or none has a line of an audit or a step.
    """
    name = " and ".join(sources)
    files = [list(read_lines(path)) for source in sources for path in _files(source)]
    lines = [line for file in files for line in file]
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
    last = path[0].begin
    return History(
        name=name,
        epochs=_steps_by_epoch(steps),
        run={} if last is None else last.run,
        ends=() if last is None else last.ends(),
        num_steps=len(steps),
        num_superseded=len(lines) - len(begins) - len(steps),
        attempts=frozenset(begin.attempt for begin in begins),
        after=frozenset(begin.after for begin in begins),
        world_sizes=sorted({step.world_size for step in steps}),
    )


def _steps_by_epoch(steps: Sequence[StepLine]) -> dict[int, list[StepLine]]:
    epochs: dict[int, list[StepLine]] = {}
    for step in sorted(steps, key=lambda step: (step.epoch, step.start, step.stop)):
        of_epoch = epochs.setdefault(step.epoch, [])
        if step.start < step.stop:  # otherwise the rank had no share of the last step
            of_epoch.append(step)
    return epochs


def read_lines(path: Path) -> Iterator[BeginLine | StepLine]:
    """Yield the lines of an audit file, without an incomplete line, which a killed rank can leave."""
    for raw in path.read_bytes().split(b"\n"):
        try:
            yield _parse(json.loads(raw))
        except (ValueError, KeyError, TypeError):
            continue


def _parse(saved: dict[str, Any]) -> BeginLine | StepLine:
    if "begin" not in saved:
        numbers = [int(saved[name]) for name in _NUMBERS]
        return StepLine(*numbers, *(int(saved[name], 16) for name in _HASHES))
    epoch, consumed = map(int, saved["begin"])
    return BeginLine(
        start=(epoch, consumed),
        run={name: saved[name] for name in IDENTITY if name in saved},
        handed_over=tuple((int(low), int(high)) for low, high in saved.get("had", [[0, consumed]])),
        attempt=str(saved.get("attempt") or (epoch, consumed, int(saved["world_size"]))),
        after=str(saved.get("after", "")),
    )


def _files(source: str) -> list[Path]:
    path = Path(source)
    pattern = glob.escape(source) if path.exists() else source
    if path.is_dir():
        pattern += "/*.jsonl"
    files = sorted(map(Path, glob.glob(pattern)))  # noqa: PTH207 - the pattern may be absolute
    if not files:
        raise LoaderError(
            f"{source} names no audit files; give a file, a folder with .jsonl files, or a pattern in quotes"
        )
    return files


def _path_to_end(files: Sequence[Lines]) -> list[_Attempt]:
    """Return the attempts that lead to the end of the run, the last one first."""
    names = {line.attempt for lines in files for line in lines if isinstance(line, BeginLine)}
    attempts = {name: _Attempt(name) for name in (_ROOT, *names)}
    last_names = [_add_file(attempts, number, lines) for number, lines in enumerate(files)]
    parents = {attempt.parent for attempt in attempts.values()}

    def priority(path: Sequence[_Attempt]) -> tuple[bool, tuple[int, int], str]:
        last = path[0]
        is_last_in_files = all(last_names[number] == last.name for number in last.steps)
        ends = ((step.epoch, step.stop) for step in _steps_that_count(path))
        return is_last_in_files, max(ends, default=(-1, 0)), last.name

    paths = [_path_back(attempts, name) for name in attempts if name not in parents]
    return max(paths, key=priority)


def _path_back(attempts: Mapping[str, _Attempt], name: str | None) -> list[_Attempt]:
    """Return an attempt, the attempt that it continues, and so on back to the first."""
    path: dict[str, _Attempt] = {}
    while name is not None and name not in path:  # names in damaged files can form a circle
        path[name] = attempts[name]
        name = attempts[name].parent
    return list(path.values())


def _add_file(attempts: dict[str, _Attempt], number: int, lines: Lines) -> str:
    """Add the lines of one file to the attempts, and return the name of the file's last attempt."""
    name = _ROOT
    steps = attempts[_ROOT].steps[number] = []
    for line in lines:
        if isinstance(line, StepLine):
            steps.append(line)
            continue
        before, name = name, line.attempt
        attempt = attempts[name]
        # If the attempt whose state it loaded is missing, it continues the previous attempt in the file.
        if line.after and line.after in attempts:
            attempt.parent = line.after
        elif before != name:
            attempt.parent = attempt.parent or before
        if attempt.begin is None or line.start < attempt.begin.start:
            attempt.begin = line
        # A repeated name means another start from the same state: only its last steps count.
        attempt.steps[number] = steps = []
    return name


def _steps_that_count(path: Sequence[_Attempt]) -> list[StepLine]:
    """Return the steps of each attempt that precede the starts of all later attempts."""
    result: list[StepLine] = []
    limits: list[BeginLine] = []
    for attempt in path:
        for steps in attempt.steps.values():
            result += [step for step in steps if all(limit.comes_after(step) for limit in limits)]
        begin = attempt.begin
        if begin is not None:
            # Skips starts in later epochs, which exclude nothing; a run can have many starts.
            limits = [begin, *(limit for limit in limits if limit.start[0] <= begin.start[0])]
    return result
