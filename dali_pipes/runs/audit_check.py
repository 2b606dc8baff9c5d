"""Whether one run handed over each sample of each epoch exactly once, by its audit files alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dali_pipes.errors import LoaderError
from dali_pipes.runs.audit import sums
from dali_pipes.runs.audit_compare import summary
from dali_pipes.runs.audit_history import History, read_history
from dali_pipes.runs.audit_lines import Part
from dali_pipes.runs.audit_ranges import Range, coverage, ends_of, is_dropped, minus, range_words

_AT_ONCE = 1 << 20  # indices
_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class EpochCheck:
    """One epoch of a run.

    Attributes:
        epoch: Its number.
        count: Samples that were handed over, skipped ones not counted.
        missing: Positions that nobody got.
        doubled: Positions that came more than once.
        is_open: Whether the run ends within this epoch, and has all of it so far.
        is_dropped: Whether it lacks but what last_batch="drop" leaves out at its end.
        other_samples: Whether each position came once, but not each sample.
        skipped: Samples that were skipped as bad.
    """

    epoch: int
    count: int
    missing: list[Range]
    doubled: list[Range]
    is_open: bool
    is_dropped: bool
    other_samples: bool
    skipped: int

    @property
    def once(self) -> bool:
        """Whether each sample came exactly once, as far as the run came."""
        lacking = self.missing and not (self.is_open or self.is_dropped)
        return not (lacking or self.doubled or self.other_samples or self.skipped)

    def words(self) -> str:
        """Say it in one line."""
        head = f"epoch {self.epoch}:"
        if self.once:
            end = ", so far: the run ends within it" if self.is_open else ""
            end = ', but for what last_batch="drop" leaves out' if self.is_dropped else end
            return f"{head} {self.count} samples, each exactly once{end}"
        found = []
        if self.missing and not (self.is_open or self.is_dropped):
            found.append(f"lacks {range_words(self.missing)}")
        if self.doubled:
            found.append(f"has more than once {range_words(self.doubled)}")
        if self.skipped:
            found.append(f"skipped {self.skipped} samples as bad")
        if self.other_samples:
            found.append(
                "each position came once, but not each sample: some came again in place of others, as in a mixture by "
                'weights or with on_bad_sample="replace"'
            )
        return f"{head} {'; '.join(found)}"


@dataclass(frozen=True)
class AuditCheck:
    """One run.

    Attributes:
        history: What it handed over in the end.
        epochs: Every epoch that it has.
    """

    history: History
    epochs: list[EpochCheck]

    @property
    def once(self) -> bool:
        """Whether each sample of each epoch came exactly once, as far as the run came."""
        return all(epoch.once for epoch in self.epochs)

    def lines(self) -> list[str]:
        """Say what was found."""
        verdict = "each sample exactly once" if self.once else "NOT each sample exactly once"
        epochs = [epoch.words() for epoch in self.epochs]
        return [summary("A", self.history), *epochs, verdict]


def check_audit(*sources: str | Path) -> AuditCheck:
    """Find out whether a run handed over each sample of each epoch exactly once, whatever was done again after a resume.

    Args:
        sources: Files, folders with .jsonl files, or patterns, which are read as one run; what ``Monitoring(audit="run-{rank}.jsonl")`` wrote.

    Raises:
        LoaderError: There is no such file, no line of an audit in them, or nothing says how long an epoch is.

    Example:
        >>> from dali_pipes.runs.audit_check import check_audit
        >>> loader = Loader(open_dataset("photos/"), Recipe.imagenet_train(size=64), batch_size=8, monitoring=Monitoring(audit="once.jsonl"))
        >>> for batch in loader:
        ...     pass
        >>> check_audit("once.jsonl").once
        True
    """
    history = read_history(*map(str, sources))
    ends = ends_of(history)
    if not ends or ends[-1] >= 1 << 62:
        raise LoaderError(
            f"{history.name}: nothing says how many samples an epoch has, as for streams of unknown length; compare it with "
            f"another run: gpu-aug audit A B"
        )
    every = _sum_of_samples(ends[-1])
    last = max(history.epochs)
    return AuditCheck(
        history,
        [
            _check_epoch(epoch, history.epochs.get(epoch, []), ends, every, is_last=epoch == last)
            for epoch in range(min(history.epochs), last + 1)
        ],
    )


def _check_epoch(
    epoch: int, parts: Sequence[Part], ends: tuple[int, ...], every: int, *, is_last: bool
) -> EpochCheck:
    covered, doubled = coverage(parts)
    missing = minus([(0, ends[-1])], covered)
    count = sum(part.count for part in parts)
    skipped = sum(part.stop - part.start - part.count for part in parts)
    whole = not (missing or doubled or skipped)
    dropped = is_dropped(parts, missing, ends)
    return EpochCheck(
        epoch,
        count,
        missing,
        doubled,
        is_last and bool(missing) and not dropped and _reaches_to_ends(missing, ends),
        dropped,
        whole and sum(part.samples for part in parts) & _MASK != every,
        skipped,
    )


def _reaches_to_ends(missing: Sequence[Range], ends: tuple[int, ...]) -> bool:
    """Whether what is missing is the rest of the epoch, or of its buckets, and nothing in front of it."""
    starts = (0, *ends[:-1])
    rest = [minus([(start, end)], missing) for start, end in zip(starts, ends, strict=True)]
    return all(
        len(had) <= 1 and (not had or had[0][0] == start)
        for had, start in zip(rest, starts, strict=True)
    )


def _sum_of_samples(length: int) -> int:
    """The sum over samples of an epoch that has each index once."""
    total = 0
    for start in range(0, length, _AT_ONCE):
        indices = np.arange(start, min(start + _AT_ONCE, length))
        total += sums(0, indices, indices)[0]
    return total & _MASK
