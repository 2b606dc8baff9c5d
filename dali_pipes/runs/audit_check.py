"""Check with its audit files that a run handed over each sample of each epoch exactly once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dali_pipes.errors import LoaderError, first_of
from dali_pipes.runs.audit import HASH_MASK, sums
from dali_pipes.runs.audit_history import History, StepLine, read_history
from readers.plural import counted

Range = tuple[int, int]
"""Positions from start to stop (half open)."""

_INDICES_AT_ONCE = 1 << 20
"""Indices hashed at a time: 24 MB, whatever the length of an epoch."""

_MAX_RANGES = 4
"""Number of ranges that a sentence lists; a broken run can have thousands."""

_UNKNOWN_LENGTH = 1 << 62
"""Streams of unknown length have at least this many positions."""


@dataclass(frozen=True)
class Faults:
    """The missing and repeated positions of an epoch in a run.

    Attributes:
        missing: Expected positions that no rank received.
        doubled: Positions that were handed over more than once.
        is_dropped: Whether the only missing positions are those that last_batch="drop" leaves out at the end of an
            epoch or bucket.
        num_skipped: Count of samples that were skipped as bad.
    """

    missing: list[Range]
    doubled: list[Range]
    is_dropped: bool
    num_skipped: int

    def lines(self) -> Iterator[str]:
        """Yield a part of a sentence for each kind of fault."""
        if self.missing:
            end = ', which is what last_batch="drop" leaves out' if self.is_dropped else ""
            yield f"lacks {describe_ranges(self.missing)}{end}"
        if self.doubled:
            yield f"has more than once {describe_ranges(self.doubled)}"
        if self.num_skipped:
            yield f"skipped {counted(self.num_skipped, 'sample')} as bad"


@dataclass(frozen=True)
class EpochCheck:
    """The result for one epoch of a run.

    Attributes:
        epoch: The epoch, counted from 0.
        once: Whether each position came exactly once, up to the end of the run, and in a complete epoch each sample.
        is_complete: Whether no position is missing; only the hashes of a complete epoch show whether samples came again.
        line: The result as text.
    """

    epoch: int
    once: bool
    is_complete: bool
    line: str


@dataclass(frozen=True)
class AuditCheck:
    """The result for one run.

    Attributes:
        history: The steps of the run that count.
        epochs: Results of all epochs from the first to the last.
    """

    history: History
    epochs: list[EpochCheck]

    @property
    def once(self) -> bool:
        """Whether each position of each epoch came exactly once, up to the end of the run, and in complete epochs each sample."""
        return all(epoch.once for epoch in self.epochs)

    def lines(self) -> list[str]:
        """Return the report, line by line."""
        verdict = "each sample exactly once" if self.once else "NOT each sample exactly once"
        if self.once and not all(epoch.is_complete for epoch in self.epochs):
            verdict = "each position exactly once; whether a sample came again shows in complete epochs only"
        return [summarize("A", self.history), *(epoch.line for epoch in self.epochs), verdict]


def check_audit(*sources: str | Path) -> AuditCheck:
    """Check that a run handed over each sample of each epoch exactly once; steps repeated after a resume count once.

    Args:
        sources: Files, folders with .jsonl files, or patterns for the files of
            ``Monitoring(audit="run-{rank}.jsonl")``. All of these files are read as one run.

    Raises:
        LoaderError: No file exists, none has a line of an audit, or the length of an epoch is unknown.

    Example:
        >>> from dali_pipes.runs.audit_check import check_audit
        >>> loader = Loader(open_dataset("photos/"), Recipe.imagenet_train(size=64), batch_size=8, monitoring=Monitoring(audit="once.jsonl"))
        >>> for batch in loader:
        ...     pass
        >>> check_audit("once.jsonl").once
        True
    """
    history = read_history(*map(str, sources))
    if not history.ends or history.ends[-1] >= _UNKNOWN_LENGTH:
        raise LoaderError(
            f"{history.name}: nothing says how many samples an epoch has, as for streams of unknown length; compare it with "
            f"another run: gpu-aug audit A B"
        )
    expected_hash = _hash_all_samples(history.ends[-1])
    epochs = range(min(history.epochs), max(history.epochs) + 1)
    return AuditCheck(history, [_check_epoch(epoch, history, expected_hash) for epoch in epochs])


def _check_epoch(epoch: int, history: History, expected_hash: int) -> EpochCheck:
    steps = history.epochs.get(epoch, [])
    faults = find_faults(steps, [(0, history.ends[-1])], history.ends)
    rests = [rest for rest, _ in _rests(steps, history.ends)]
    is_open = epoch == max(history.epochs) and not subtract(faults.missing, rests)
    is_lost = bool(faults.missing) and not (is_open or faults.is_dropped)
    words = list(faults.lines())
    has_other_samples = not words and sum_of_samples(steps) != expected_hash
    once = not (is_lost or faults.doubled or faults.num_skipped or has_other_samples)
    if has_other_samples:
        words.append(
            "each position came once, but not each sample: some came again in place of others, as in a mixture by "
            'weights or with on_bad_sample="replace"'
        )
    elif once:
        words = [
            f"{sum(step.count for step in steps)} {'positions' if faults.missing else 'samples'}, each exactly once"
        ]
        if faults.is_dropped:
            words.append('but for what last_batch="drop" leaves out')
        elif faults.missing:
            words.append("so far: the run ends within it")
    return EpochCheck(epoch, once, not faults.missing, f"epoch {epoch}: {', '.join(words)}")


def _hash_all_samples(length: int) -> int:
    """Return the sum of the hashes of the indices 0 to `length` - 1, each once: the expected sum of an epoch."""
    total = 0
    for start in range(0, length, _INDICES_AT_ONCE):
        indices = np.arange(start, min(start + _INDICES_AT_ONCE, length))
        total += sums(0, indices, indices)[0]
    return total & HASH_MASK


def sum_of_samples(steps: Sequence[StepLine]) -> int:
    """Return the sum of the hashes of all samples, in any order."""
    return sum(step.samples for step in steps) & HASH_MASK


def summarize(name: str, history: History) -> str:
    """Return a one-line summary of a run."""
    numbers = [
        f"{name}: {history.name}",
        f"epochs: {len(history.epochs)}",
        f"{counted(history.num_steps, 'line')} of steps",
        f"ranks: {', '.join(map(str, history.world_sizes))}",
        f"attempts: {len(history.attempts)}",
    ]
    if history.num_superseded:
        numbers.append(f"{history.num_superseded} more were done again after a resume")
    return ", ".join(numbers)


def find_faults(
    steps: Sequence[StepLine], expected: Sequence[Range], ends: Sequence[int]
) -> Faults:
    """Return the missing and repeated positions in the steps of an epoch.

    Args:
        steps: Steps of a run, ordered by position.
        expected: The positions that the run should have.
        ends: The end of the epoch's positions, or of the positions of each bucket; empty if unknown.
    """
    own = ranges_of(steps)
    edges = edges_of(own)
    missing = subtract(expected, own)
    droppable = [rest for rest, is_short in _rests(steps, ends) if is_short]
    return Faults(
        missing=missing,
        doubled=ranges_where(coverage(own, edges) > 1, edges),
        is_dropped=bool(missing) and not subtract(missing, droppable),
        num_skipped=sum(step.stop - step.start - step.count for step in steps),
    )


def _rests(steps: Sequence[StepLine], ends: Sequence[int]) -> Iterator[tuple[Range, bool]]:
    """Yield the range after the last step of the epoch or of each bucket, and whether it is shorter than a step."""
    largest = max(((step.stop - step.start) * step.world_size for step in steps), default=0)
    for start, end in pairwise((0, *ends)):
        stop, size = start, largest
        own = [step for step in steps if start <= step.start < end]
        if own:
            stop, size = own[-1].stop, (own[-1].stop - own[-1].start) * own[-1].world_size
        yield (stop, end), end - stop < size


def ranges_of(steps: Sequence[StepLine]) -> list[Range]:
    """Return the positions of each step."""
    return [(step.start, step.stop) for step in steps]


def edges_of(*many: Sequence[Range]) -> NDArray[np.int64]:
    """Return all positions at which ranges start or stop: int64 [n], ascending, without duplicates."""
    return np.unique(
        np.array([edge for ranges in many for pair in ranges for edge in pair], np.int64)
    )


def coverage(ranges: Sequence[Range], edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each interval between neighbouring edges how many ranges contain it: int64 [n - 1]."""
    changes = np.zeros(len(edges), np.int64)
    starts, stops = np.array(ranges, np.int64).reshape(-1, 2).T
    np.add.at(changes, np.searchsorted(edges, starts), 1)
    np.add.at(changes, np.searchsorted(edges, stops), -1)
    return np.cumsum(changes)[:-1]


def ranges_where(mask: NDArray[np.bool_], edges: NDArray[np.int64]) -> list[Range]:
    """Return the positions between edges for which a mask, bool [n - 1], is True, as ranges that do not touch."""
    turns = np.flatnonzero(np.diff(mask, prepend=False, append=False))
    bounds = edges[turns].tolist()
    return list(zip(bounds[::2], bounds[1::2], strict=True))


def subtract(ranges: Sequence[Range], others: Sequence[Range]) -> list[Range]:
    """Return the positions that are in `ranges` and not in `others`."""
    edges = edges_of(ranges, others)
    is_left = (coverage(ranges, edges) > 0) & (coverage(others, edges) == 0)
    return ranges_where(is_left, edges)


def describe_ranges(ranges: Sequence[Range]) -> str:
    """Return a text with the count of positions in the ranges, and the first ranges."""
    count = sum(stop - start for start, stop in ranges)
    shown = first_of([f"{start} to {stop - 1}" for start, stop in ranges], _MAX_RANGES)
    return f"{count} positions: {shown}"
