"""Check and compare runs by their audit files: each sample exactly once, or the same samples in the same order.

Decided by the hashes `samples` and `places` of the step lines, added up over all ranks. `rolling` is not used: it is for
people who compare one rank of two runs.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from dali_pipes.errors import LoaderError
from dali_pipes.runs.audit import HASH_MASK, sums
from dali_pipes.runs.audit_history import IDENTITY, History, StepLine, read_history
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
        missing: Positions that nobody received, though the run came that far.
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
        """Whether each sample came exactly once, as far as the run came."""
        return not (self.missing or self.doubled or self.skipped or self.has_other_samples)

    def line(self) -> str:
        """Return the result in one line."""
        if self.once:
            end = ", so far: the run ends within it" if self.is_open else ""
            end = ', but for what last_batch="drop" leaves out' if self.is_dropped else end
            return f"epoch {self.epoch}: {self.count} samples, each exactly once{end}"
        found = []
        if self.missing:
            found.append(f"lacks {_describe_ranges(self.missing)}")
        if self.doubled:
            found.append(f"has more than once {_describe_ranges(self.doubled)}")
        if self.skipped:
            found.append(f"skipped {self.skipped} samples as bad")
        if self.has_other_samples:
            found.append(
                "each position came once, but not each sample: some came again in place of others, as in a mixture by "
                'weights or with on_bad_sample="replace"'
            )
        return f"epoch {self.epoch}: {'; '.join(found)}"


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
        return [_summary("A", self.history), *(epoch.line() for epoch in self.epochs), verdict]


def check_audit(*sources: str | Path) -> AuditCheck:
    """Check that a run handed over each sample of each epoch exactly once; steps repeated after a resume count once.

    Args:
        sources: Files, folders with .jsonl files, or patterns of what ``Monitoring(audit="run-{rank}.jsonl")`` wrote. They
            are read as one run.

    Raises:
        LoaderError: No file exists, none has a line of an audit, or the length of an epoch is unknown.

    Example:
        >>> from dali_pipes.runs.audit_report import check_audit
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
    covered, doubled = _coverage(steps)
    missing = _difference([(0, ends[-1])], covered)
    skipped = _num_skipped(steps)
    is_complete = not (missing or doubled or skipped)
    is_dropped = _is_dropped(steps, missing, ends)
    is_open = is_last and bool(missing) and not is_dropped and _lacks_only_ends(missing, ends)
    return EpochCheck(
        epoch=epoch,
        count=sum(step.count for step in steps),
        missing=[] if is_open or is_dropped else missing,
        doubled=doubled,
        skipped=skipped,
        is_open=is_open,
        is_dropped=is_dropped,
        has_other_samples=is_complete and _sums(steps)[1] != every,
    )


def _sum_over_samples(length: int) -> int:
    """Return the sum over samples of an epoch that has each index once."""
    total = 0
    for start in range(0, length, _INDICES_AT_ONCE):
        indices = np.arange(start, min(start + _INDICES_AT_ONCE, length))
        total += sums(0, indices, indices)[0]
    return total & HASH_MASK


@dataclass(frozen=True, slots=True)
class Stretch:
    """Positions at whose start and stop steps of both runs begin and end, so that their hashes can be compared.

    Attributes:
        start: First position.
        stop: One after the last position.
        steps: The first step in each run.
        same: Whether both runs have the same samples at the same positions.
    """

    start: int
    stop: int
    steps: tuple[StepLine, StepLine]
    same: bool


@dataclass(frozen=True)
class EpochComparison:
    """One epoch of two runs.

    Attributes:
        epoch: Number of the epoch.
        stretches: Positions that were compared by hashes.
        missing: For each run the positions that only the other one has.
        doubled: For each run the positions that it has more than once.
        unmatched: Positions that both have, in steps that end at different positions: no hashes are of the same ones.
        dropped: For each run whether only the rest is missing that last_batch="drop" leaves out at an end.
        skipped: For each run the number of samples that were skipped as bad.
        has_same_samples: Whether the sums over samples agree, whatever their positions.
    """

    epoch: int
    stretches: list[Stretch]
    missing: tuple[list[Range], list[Range]]
    doubled: tuple[list[Range], list[Range]]
    unmatched: list[Range]
    dropped: tuple[bool, bool]
    skipped: tuple[int, int]
    has_same_samples: bool

    @property
    def different(self) -> list[Stretch]:
        """The stretches with other samples."""
        return [stretch for stretch in self.stretches if not stretch.same]

    @property
    def same(self) -> bool:
        """Whether the same samples came in the same order, each position as often, as far as hashes can be compared.

        The rest that last_batch="drop" leaves out is no difference: with another batch size the rest is another one.
        """
        lacks = any(
            ranges and not dropped
            for ranges, dropped in zip(self.missing, self.dropped, strict=True)
        )
        can_compare = bool(self.stretches) or not self.unmatched
        return can_compare and not (self.different or lacks or any(self.doubled))

    def lines(self) -> Iterator[str]:
        """Yield the report of the epoch, line by line."""
        compared = sum(stretch.stop - stretch.start for stretch in self.stretches)
        is_complete = self.same and not any(self.missing)
        if is_complete:
            yield f"same, {compared} positions in {len(self.stretches)} stretches"
        for what, sides in (("lacks", self.missing), ("has more than once", self.doubled)):
            for name, ranges in zip("AB", sides, strict=True):
                if ranges:
                    yield f"{name} {what} {_describe_ranges(ranges)}"
        if self.different:
            yield from self._differences()
        elif compared and not is_complete:
            where = "where steps of both end together" if self.unmatched else "where both were"
            yield f"same {where}, {compared} positions"
        if self.unmatched:
            yield f"in both, but not compared, since steps end elsewhere: {_describe_ranges(self.unmatched)}"
        for name, dropped in zip("AB", self.dropped, strict=True):
            if dropped:
                yield (
                    f'what {name} lacks at the end is less than a step of it: last_batch="drop" leaves that '
                    'out, "partial" and "pad" do not'
                )
        if any(self.skipped):
            yield f"skipped as bad: {self.skipped[0]} in A, {self.skipped[1]} in B"

    def _differences(self) -> Iterator[str]:
        first = self.different[0]
        where = " and ".join(
            f"step {step.step} of {name} (rank {step.rank} of {step.world_size})"
            for name, step in zip("AB", first.steps, strict=True)
        )
        yield (
            f"other samples, first within positions {first.start} to {first.stop - 1}, "
            f"{where}; in {len(self.different)} of {len(self.stretches)} stretches"
        )
        if self.has_same_samples:
            yield "but the same samples as a whole, in another order"


@dataclass(frozen=True)
class AuditComparison:
    """The result for two runs.

    Attributes:
        histories: The steps of each run that count.
        epochs: Every epoch that one of the runs has.
    """

    histories: tuple[History, History]
    epochs: list[EpochComparison]

    @property
    def same(self) -> bool:
        """Whether the same samples of the same dataset came in the same order."""
        first, second = (history.run.get("dataset") for history in self.histories)
        is_other = None not in (first, second) and first != second
        return all(epoch.same for epoch in self.epochs) and not is_other

    @property
    def continued(self) -> bool:
        """Whether one of the two went on from a state of the other."""
        first, second = self.histories
        return first.continues(second) or second.continues(first)

    def lines(self) -> list[str]:
        """Return the report, line by line."""
        lines = [
            _summary(name, history) for name, history in zip("AB", self.histories, strict=True)
        ]
        first, second = (history.run for history in self.histories)
        other = [
            name
            for name in IDENTITY
            if name in first and name in second and first[name] != second[name]
        ]
        # Another length, seed or kind of shuffling makes another order: no news.
        if {"length", "seed", "shuffle"}.intersection(other):
            other = [name for name in other if name != "order"]
        lines += [
            f"the runs have another {name}: {first[name]} in A, {second[name]} in B"
            for name in other
        ]
        lines += [f"epoch {epoch.epoch}: {line}" for epoch in self.epochs for line in epoch.lines()]
        if not self.same:
            return [*lines, "NOT the same samples in the same order"]
        is_rest = any(any(epoch.missing) for epoch in self.epochs)
        end = ', but for what last_batch="drop" left out at the end of epochs' if is_rest else ""
        return [*lines, f"same samples in the same order{end}"]


def compare_audits(first: str | Path, second: str | Path) -> AuditComparison:
    """Compare what two runs handed over, on any number of ranks and after any number of resumes.

    Args:
        first: A file, a folder with .jsonl files, or a pattern of what ``Monitoring(audit="run-{rank}.jsonl")`` wrote.
        second: The same of the other run.

    Raises:
        LoaderError: No file exists, or none has a line of an audit.

    Example:
        >>> from dali_pipes.runs.audit_report import compare_audits
        >>> photos = open_dataset("photos/")
        >>> for name in ("first", "second"):
        ...     loader = Loader(photos, Recipe.imagenet_train(size=64), batch_size=8, monitoring=Monitoring(audit=f"{name}.jsonl"))
        ...     for batch in loader:
        ...         pass
        >>> compare_audits("first.jsonl", "second.jsonl").same
        True
    """
    return compare_histories(read_history(str(first)), read_history(str(second)))


def compare_histories(first: History, second: History) -> AuditComparison:
    """Compare two runs that were read; see `compare_audits`."""
    epochs = [
        _compare_epoch(epoch, (first, second)) for epoch in sorted({*first.epochs, *second.epochs})
    ]
    return AuditComparison((first, second), epochs)


def _compare_epoch(epoch: int, histories: tuple[History, History]) -> EpochComparison:
    first, second = (history.epochs.get(epoch, []) for history in histories)
    (covered, doubled), (other_covered, other_doubled) = _coverage(first), _coverage(second)
    stretches = list(_stretches(_without_overlap(first), _without_overlap(second)))
    missing = _difference(other_covered, covered), _difference(covered, other_covered)
    both = _difference(covered, missing[1])
    return EpochComparison(
        epoch=epoch,
        stretches=stretches,
        missing=missing,
        doubled=(doubled, other_doubled),
        unmatched=_difference(both, [(stretch.start, stretch.stop) for stretch in stretches]),
        dropped=(
            _is_dropped(first, missing[0], histories[0].ends()),
            _is_dropped(second, missing[1], histories[1].ends()),
        ),
        skipped=(_num_skipped(first), _num_skipped(second)),
        has_same_samples=_sums(first)[1] == _sums(second)[1],
    )


def _without_overlap(steps: Sequence[StepLine]) -> list[StepLine]:
    kept: list[StepLine] = []
    for step in steps:
        if not kept or step.start >= kept[-1].stop:
            kept.append(step)
    return kept


def _stretches(first: Sequence[StepLine], second: Sequence[StepLine]) -> Iterator[Stretch]:
    """Yield the stretches between neighbouring positions at which steps of both runs begin or end."""
    edges = [
        {edge for step in steps for edge in (step.start, step.stop)} for steps in (first, second)
    ]
    cuts = sorted(edges[0] & edges[1])
    groups: list[dict[int, list[StepLine]]] = [{}, {}]
    for group, steps in zip(groups, (first, second), strict=True):
        for step in steps:
            group.setdefault(bisect_right(cuts, step.start), []).append(step)
    for number, (start, stop) in enumerate(pairwise(cuts), 1):
        one, other = (group.get(number, []) for group in groups)
        # Positions that are missing in one of them are reported elsewhere.
        if _num_positions(one) == _num_positions(other) == stop - start:
            yield Stretch(start, stop, (one[0], other[0]), _sums(one) == _sums(other))


def _num_positions(steps: Sequence[StepLine]) -> int:
    return sum(step.stop - step.start for step in steps)


def _num_skipped(steps: Sequence[StepLine]) -> int:
    return _num_positions(steps) - sum(step.count for step in steps)


def _sums(steps: Sequence[StepLine]) -> tuple[int, int]:
    """Return the sums of `places` and `samples`."""
    places, samples = sum(step.places for step in steps), sum(step.samples for step in steps)
    return places & HASH_MASK, samples & HASH_MASK


def _summary(name: str, history: History) -> str:
    """Return what is known of a run, in one line."""
    numbers = [
        f"{name}: {history.name}",
        counted(len(history.epochs), "epoch"),
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


def _is_dropped(steps: Sequence[StepLine], missing: Sequence[Range], ends: Sequence[int]) -> bool:
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


def _lacks_only_ends(missing: Sequence[Range], ends: tuple[int, ...]) -> bool:
    """Whether the missing positions are the rest of the epoch, or of its buckets, with nothing missing before."""
    for start, end in pairwise((0, *ends)):
        present = _difference([(start, end)], missing)
        if len(present) > 1 or (present and present[0][0] != start):
            return False
    return True


def _coverage(steps: Sequence[StepLine]) -> tuple[list[Range], list[Range]]:
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


def _difference(ranges: Sequence[Range], others: Sequence[Range]) -> list[Range]:
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


def _describe_ranges(ranges: Sequence[Range]) -> str:
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
