"""Check by its audit files that a run handed over each sample of each epoch exactly once."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from dali_pipes.errors import LoaderError
from dali_pipes.runs.audit import HASH_MASK, sums
from dali_pipes.runs.audit_history import History, StepLine, read_history
from readers.plural import counted

Range = tuple[int, int]
"""Positions from start to stop, half open."""

_INDICES_AT_ONCE = 1 << 20
"""Indices hashed at once: 24 MB, whatever the length of an epoch."""

_MAX_RANGES = 4
"""Ranges that a sentence lists; a broken run can have thousands."""

_UNKNOWN_LENGTH = 1 << 62
"""Streams of unknown length have at least this many positions."""


@dataclass(frozen=True)
class EpochCheck:
    """One epoch of a run.

    Attributes:
        epoch: Number of the epoch.
        count: Number of samples that were handed over, without skipped ones.
        missing: Positions that no rank received, though the run came that far.
        doubled: Positions that were handed over more than once.
        skipped: Number of samples that were skipped as bad.
        is_open: Whether the run ends within this epoch, with all positions up to there.
        is_dropped: Whether only the rest is missing that last_batch="drop" leaves out at an end.
        has_other_samples: Whether each position came once, but not each sample.
    """

    epoch: int
    count: int
    missing: list[Range]
    doubled: list[Range]
    skipped: int
    is_open: bool
    is_dropped: bool
    has_other_samples: bool

    @property
    def once(self) -> bool:
        """Whether each sample came exactly once, up to the end of the run."""
        return not (self.missing or self.doubled or self.skipped or self.has_other_samples)

    def line(self) -> str:
        """Return the result in one line."""
        if self.once:
            end = ", so far: the run ends within it" if self.is_open else ""
            end = ', but for what last_batch="drop" leaves out' if self.is_dropped else end
            return f"epoch {self.epoch}: {self.count} samples, each exactly once{end}"
        faults = []
        if self.missing:
            faults.append(f"lacks {describe_ranges(self.missing)}")
        if self.doubled:
            faults.append(f"has more than once {describe_ranges(self.doubled)}")
        if self.skipped:
            faults.append(f"skipped {self.skipped} samples as bad")
        if self.has_other_samples:
            faults.append(
                "each position came once, but not each sample: some came again in place of others, as in a mixture by "
                'weights or with on_bad_sample="replace"'
            )
        return f"epoch {self.epoch}: {'; '.join(faults)}"


@dataclass(frozen=True)
class AuditCheck:
    """The result for one run.

    Attributes:
        history: The steps of the run that count.
        epochs: Every epoch from the first to the last.
    """

    history: History
    epochs: list[EpochCheck]

    @property
    def once(self) -> bool:
        """Whether each sample of each epoch came exactly once, as far as the run came."""
        return all(epoch.once for epoch in self.epochs)

    def lines(self) -> list[str]:
        """Return the report, line by line."""
        verdict = "each sample exactly once" if self.once else "NOT each sample exactly once"
        return [summarize("A", self.history), *(epoch.line() for epoch in self.epochs), verdict]


def check_audit(*sources: str | Path) -> AuditCheck:
    """Check that a run handed over each sample of each epoch exactly once; steps repeated after a resume count once.

    Args:
        sources: Files, folders with .jsonl files, or patterns of what ``Monitoring(audit="run-{rank}.jsonl")`` wrote. They
            are read as one run.

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
    ends = history.ends()
    if not ends or ends[-1] >= _UNKNOWN_LENGTH:
        raise LoaderError(
            f"{history.name}: nothing says how many samples an epoch has, as for streams of unknown length; compare it with "
            f"another run: gpu-aug audit A B"
        )
    every = _sum_over_samples(ends[-1])
    last = max(history.epochs)
    epochs = [
        _check_epoch(epoch, history.epochs.get(epoch, []), ends, every, is_last=epoch == last)
        for epoch in range(min(history.epochs), last + 1)
    ]
    return AuditCheck(history, epochs)


def _check_epoch(
    epoch: int, steps: Sequence[StepLine], ends: tuple[int, ...], every: int, *, is_last: bool
) -> EpochCheck:
    covered, doubled = coverage(steps)
    missing = difference([(0, ends[-1])], covered)
    skipped = num_skipped(steps)
    is_complete = not (missing or doubled or skipped)
    is_dropped = is_dropped_rest(steps, missing, ends)
    is_open = is_last and bool(missing) and not is_dropped and _lacks_only_ends(missing, ends)
    return EpochCheck(
        epoch=epoch,
        count=sum(step.count for step in steps),
        missing=[] if is_open or is_dropped else missing,
        doubled=doubled,
        skipped=skipped,
        is_open=is_open,
        is_dropped=is_dropped,
        has_other_samples=is_complete and add_hashes(steps)[1] != every,
    )


def _sum_over_samples(length: int) -> int:
    """Return the sum over samples of an epoch that has each index once."""
    total = 0
    for start in range(0, length, _INDICES_AT_ONCE):
        indices = np.arange(start, min(start + _INDICES_AT_ONCE, length))
        total += sums(0, indices, indices)[0]
    return total & HASH_MASK


def _lacks_only_ends(missing: Sequence[Range], ends: tuple[int, ...]) -> bool:
    """Whether the missing positions are the rest of the epoch, or of its buckets, with nothing missing before."""
    for start, end in pairwise((0, *ends)):
        present = difference([(start, end)], missing)
        if len(present) > 1 or (present and present[0][0] != start):
            return False
    return True


def num_positions(steps: Sequence[StepLine]) -> int:
    """Return the number of positions of steps; positions that come twice count twice."""
    return sum(step.stop - step.start for step in steps)


def num_skipped(steps: Sequence[StepLine]) -> int:
    """Return the number of samples that were skipped as bad."""
    return num_positions(steps) - sum(step.count for step in steps)


def add_hashes(steps: Sequence[StepLine]) -> tuple[int, int]:
    """Return the sums of `places` and `samples`."""
    places, samples = sum(step.places for step in steps), sum(step.samples for step in steps)
    return places & HASH_MASK, samples & HASH_MASK


def summarize(name: str, history: History) -> str:
    """Return what is known of a run, in one line."""
    num_epochs = len(history.epochs)
    numbers = [
        f"{name}: {history.name}",
        f"{num_epochs} epoch{'' if num_epochs == 1 else 's'}",  # `counted` knows batches, not epochs
        f"{counted(history.num_steps, 'line')} of steps",
        f"ranks: {', '.join(map(str, history.world_sizes))}",
    ]
    if history.num_superseded:
        numbers.append(f"{history.num_superseded} more were done again after a resume")
    if len(history.attempts) > 1:
        numbers.append(f"{len(history.attempts)} attempts")
    if history.num_torn:
        numbers.append(f"{counted(history.num_torn, 'torn line')} left out")
    return ", ".join(numbers)


def is_dropped_rest(
    steps: Sequence[StepLine], missing: Sequence[Range], ends: Sequence[int]
) -> bool:
    """Whether all missing positions lie at the end of the epoch, or of buckets, and are less than one more step."""
    if not ends or not steps or not missing:
        return False
    largest = max((step.stop - step.start) * step.world_size for step in steps)
    for start, end in pairwise((0, *ends)):
        lacking = [low for low, high in missing if low < end and high > start]
        own = [step for step in steps if start <= step.start < end]
        stop, size = start, largest
        if own:
            stop, size = own[-1].stop, (own[-1].stop - own[-1].start) * own[-1].world_size
        if lacking and (max(lacking[0], start) < stop or end - stop >= size):
            return False
    return True


def coverage(steps: Sequence[StepLine]) -> tuple[list[Range], list[Range]]:
    """Return the positions of ordered steps, and those of them that come more than once."""
    covered: list[Range] = []
    doubled: list[Range] = []
    for step in steps:
        if covered and step.start <= covered[-1][1]:
            low, high = covered[-1]
            if step.start < high:
                doubled.append((step.start, min(high, step.stop)))
            covered[-1] = low, max(high, step.stop)
        else:
            covered.append((step.start, step.stop))
    return covered, doubled


def difference(ranges: Sequence[Range], others: Sequence[Range]) -> list[Range]:
    """Return the positions of `ranges` that are not in `others`; both ascend and do not touch."""
    rest = []
    for low, high in ranges:
        for start, stop in others:
            if start < high and stop > low:
                if start > low:
                    rest.append((low, start))
                low = max(low, stop)
        if low < high:
            rest.append((low, high))
    return rest


def describe_ranges(ranges: Sequence[Range]) -> str:
    """Return how many positions there are, and the first ranges."""
    merged: list[Range] = []
    for low, high in ranges:
        if merged and low <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(high, merged[-1][1])
        else:
            merged.append((low, high))
    count = sum(high - low for low, high in merged)
    shown = ", ".join(f"{low} to {high - 1}" for low, high in merged[:_MAX_RANGES])
    more = f" and {len(merged) - _MAX_RANGES} more ranges" if len(merged) > _MAX_RANGES else ""
    return f"{count} positions: {shown}{more}"
