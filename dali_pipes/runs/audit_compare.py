"""Comparing two runs by their audit files: the same samples in the same order, or where they part.

What decides are `places` and `samples` of the lines, added up over all ranks. `rolling` is not looked at: it is for
people who compare one rank of two runs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dali_pipes.runs.audit_history import History, read_history
from dali_pipes.runs.audit_lines import IDENTITY, Part
from dali_pipes.runs.audit_ranges import (
    Range,
    coverage,
    ends_of,
    is_dropped,
    minus,
    one_range,
    range_words,
)
from readers.plural import counted

_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Stretch:
    """Positions that begin and end a step's share in both runs, so that their hashes can be compared.

    Attributes:
        start: First position.
        stop: One after the last.
        parts: Where it begins in each run.
        same: Whether the same samples were handed over at the same positions.
    """

    start: int
    stop: int
    parts: tuple[Part, Part]
    same: bool


@dataclass
class EpochComparison:
    """One epoch of two runs.

    Attributes:
        epoch: Its number.
        stretches: What could be compared by hashes.
        missing: For each run the positions that only the other one has.
        doubled: For each run the positions that it has more than once.
        unmatched: Positions that both have, but in steps that end at different positions, so that no hashes are
            of the same positions.
        dropped: For each run whether it lacks but what last_batch="drop" leaves out at an epoch's end.
        skipped: For each run the samples that were skipped as bad.
        same_samples: Whether the sums over samples agree, whatever their positions.
    """

    epoch: int
    stretches: list[Stretch] = field(default_factory=list)
    missing: tuple[list[Range], list[Range]] = ([], [])
    doubled: tuple[list[Range], list[Range]] = ([], [])
    unmatched: list[Range] = field(default_factory=list)
    dropped: tuple[bool, bool] = (False, False)
    skipped: tuple[int, int] = (0, 0)
    same_samples: bool = True

    @property
    def different(self) -> list[Stretch]:
        """Where other samples were handed over."""
        return [stretch for stretch in self.stretches if not stretch.same]

    @property
    def same(self) -> bool:
        """Whether the same samples came in the same order, each position as often, wherever that can be told.

        What last_batch="drop" leaves out at the end is no difference, since another batch size leaves out another rest.
        """
        lacking = [
            ranges
            for ranges, dropped in zip(self.missing, self.dropped, strict=True)
            if ranges and not dropped
        ]
        return not (self.different or lacking or any(self.doubled)) and (
            bool(self.stretches) or not self.unmatched
        )


@dataclass(frozen=True)
class AuditComparison:
    """Two runs.

    Attributes:
        histories: What each of them handed over in the end.
        epochs: Every epoch that one of them has.
    """

    histories: tuple[History, History]
    epochs: list[EpochComparison]

    @property
    def same(self) -> bool:
        """Whether the same samples of the same dataset came in the same order."""
        datasets = [history.run.get("dataset") for history in self.histories]
        known = None not in datasets
        return all(epoch.same for epoch in self.epochs) and not (
            known and datasets[0] != datasets[1]
        )

    @property
    def continued(self) -> bool:
        """Whether one of the two went on from a state of the other."""
        first, second = self.histories
        return first.continues(second) or second.continues(first)

    def lines(self) -> list[str]:
        """Say what was compared and where the runs part."""
        lines = [summary(name, history) for name, history in zip("AB", self.histories, strict=True)]
        one, other = (history.run for history in self.histories)
        follows = any(one.get(name) != other.get(name) for name in ("length", "seed", "shuffle"))
        lines += [
            f"the runs have another {name}: {one[name]} in A, {other[name]} in B"
            for name in IDENTITY
            if not (follows and name == "order")
            if name in one and name in other and one[name] != other[name]
        ]
        for epoch in self.epochs:
            lines += _epoch_lines(epoch)
        if not self.same:
            return [*lines, "NOT the same samples in the same order"]
        is_rest = any(any(epoch.missing) for epoch in self.epochs)
        end = ', but for what last_batch="drop" left out at the end of epochs' if is_rest else ""
        return [*lines, f"same samples in the same order{end}"]


def compare_audits(first: str | Path, second: str | Path) -> AuditComparison:
    """Compare what two runs handed over, on any number of ranks and after any number of resumes.

    The files are what ``Monitoring(audit="run-{rank}.jsonl")`` wrote.

    Args:
        first: A file, a folder with .jsonl files, or a pattern.
        second: The same of the other run.

    Raises:
        LoaderError: There is no such file, or no line of an audit in them.

    Example:
        >>> from dali_pipes.runs.audit_compare import compare_audits
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
    """Compare what is known of two runs; see `compare_audits`."""
    ends = ends_of(first), ends_of(second)
    epochs = [
        _compare_epoch(epoch, first.epochs.get(epoch, []), second.epochs.get(epoch, []), ends)
        for epoch in sorted({*first.epochs, *second.epochs})
    ]
    return AuditComparison((first, second), epochs)


def _compare_epoch(
    epoch: int,
    first: Sequence[Part],
    second: Sequence[Part],
    ends: tuple[tuple[int, ...], tuple[int, ...]],
) -> EpochComparison:
    covered, doubled = zip(coverage(first), coverage(second), strict=True)
    stretches = list(_stretches(_without_overlap(first), _without_overlap(second)))
    skipped = [sum(part.stop - part.start - part.count for part in p) for p in (first, second)]
    missing = minus(covered[1], covered[0]), minus(covered[0], covered[1])
    both = minus(covered[0], missing[1])
    return EpochComparison(
        epoch,
        stretches,
        missing,
        (doubled[0], doubled[1]),
        minus(both, [(stretch.start, stretch.stop) for stretch in stretches]),
        (
            is_dropped(first, missing[0], ends[0]),
            is_dropped(second, missing[1], ends[1]),
        ),
        (skipped[0], skipped[1]),
        _sums(first)[1] == _sums(second)[1],
    )


def _without_overlap(parts: Sequence[Part]) -> list[Part]:
    kept: list[Part] = []
    for part in parts:
        if not kept or part.start >= kept[-1].stop:
            kept.append(part)
    return kept


def _stretches(first: Sequence[Part], second: Sequence[Part]) -> Iterator[Stretch]:
    """Take as many parts of both as it needs until they end at one position, again and again."""
    sides = (first, second)
    next_ = [0, 0]
    while all(next_[side] < len(sides[side]) for side in (0, 1)):
        begun = [sides[side][next_[side]] for side in (0, 1)]
        if begun[0].start != begun[1].start:
            next_[begun[1].start < begun[0].start] += 1
            continue
        ends = [begun[0].stop, begun[1].stop]
        taken = [[begun[0]], [begun[1]]]
        next_ = [number + 1 for number in next_]
        while ends[0] != ends[1]:
            behind = int(ends[1] < ends[0])
            number = next_[behind]
            if number == len(sides[behind]) or sides[behind][number].start != ends[behind]:
                break  # a gap: missing positions are told of elsewhere
            ends[behind] = sides[behind][number].stop
            taken[behind].append(sides[behind][number])
            next_[behind] += 1
        else:
            same = _sums(taken[0]) == _sums(taken[1])
            yield Stretch(begun[0].start, ends[0], (begun[0], begun[1]), same)


def _sums(parts: Sequence[Part]) -> tuple[int, int]:
    """Return the sums of `places` and `samples`."""
    return sum(part.places for part in parts) & _MASK, sum(part.samples for part in parts) & _MASK


def summary(name: str, history: History) -> str:
    """Say in one line what is known of a run."""
    worlds = ", ".join(map(str, history.world_sizes))
    numbers = [
        f"{name}: {history.name}",
        _count(len(history.epochs), "epoch"),
        f"{_count(history.num_steps, 'line')} of steps",
        f"ranks: {worlds}",
    ]
    if history.num_superseded:
        numbers.append(f"{history.num_superseded} more were done again after a resume")
    if history.num_attempts > 1:
        numbers.append(f"{history.num_attempts} attempts")
    if history.num_torn:
        numbers.append(f"{counted(history.num_torn, 'torn line')} left out")
    return ", ".join(numbers)


def _epoch_lines(epoch: EpochComparison) -> Iterator[str]:
    compared = sum(stretch.stop - stretch.start for stretch in epoch.stretches)
    head = f"epoch {epoch.epoch}:"
    if epoch.same and not any(epoch.missing):
        yield f"{head} same, {compared} positions in {len(epoch.stretches)} stretches"
    for name, ranges in zip("AB", epoch.missing, strict=True):
        if ranges:
            yield f"{head} {name} lacks {range_words(ranges)}"
    for name, ranges in zip("AB", epoch.doubled, strict=True):
        if ranges:
            yield f"{head} {name} has more than once {range_words(ranges)}"
    if epoch.different:
        stretch = epoch.different[0]
        where = " and ".join(
            f"step {part.step} of {name} (rank {part.rank} of {part.world_size})"
            for name, part in zip("AB", stretch.parts, strict=True)
        )
        yield (
            f"{head} other samples, first within positions {one_range((stretch.start, stretch.stop))}, "
            f"{where}; in {len(epoch.different)} of {len(epoch.stretches)} stretches"
        )
        if epoch.same_samples:
            yield f"{head} but the same samples as a whole, in another order"
    elif compared and (not epoch.same or any(epoch.missing)):
        where = "where steps of both end together" if epoch.unmatched else "where both were"
        yield f"{head} same {where}, {compared} positions"
    if epoch.unmatched:
        yield f"{head} in both, but not compared, since steps end elsewhere: {range_words(epoch.unmatched)}"
    for name, dropped in zip("AB", epoch.dropped, strict=True):
        if dropped:
            yield (
                f'{head} what {name} lacks at the end is less than a step of it: last_batch="drop" leaves that '
                'out, "partial" and "pad" do not'
            )
    if any(epoch.skipped):
        yield f"{head} skipped as bad: {epoch.skipped[0]} in A, {epoch.skipped[1]} in B"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
