"""Compare two runs by their audit files: the same samples in the same order, or the first difference.

Decided by the hashes `places` and `samples` of the step lines, added up over all ranks. `rolling` is not used: it is for
people who compare one rank of two runs.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from dali_pipes.runs.audit_check import (
    Range,
    add_hashes,
    coverage,
    describe_ranges,
    difference,
    is_dropped_rest,
    num_positions,
    num_skipped,
    summarize,
)
from dali_pipes.runs.audit_history import IDENTITY, History, StepLine, read_history


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
                    yield f"{name} {what} {describe_ranges(ranges)}"
        if self.different:
            yield from self._differences()
        elif compared and not is_complete:
            where = "where steps of both end together" if self.unmatched else "where both were"
            yield f"same {where}, {compared} positions"
        if self.unmatched:
            yield f"in both, but not compared, since steps end elsewhere: {describe_ranges(self.unmatched)}"
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
            summarize(name, history) for name, history in zip("AB", self.histories, strict=True)
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
    """Compare two runs that were read; see `compare_audits`."""
    epochs = [
        _compare_epoch(epoch, (first, second)) for epoch in sorted({*first.epochs, *second.epochs})
    ]
    return AuditComparison((first, second), epochs)


def _compare_epoch(epoch: int, histories: tuple[History, History]) -> EpochComparison:
    first, second = (history.epochs.get(epoch, []) for history in histories)
    (covered, doubled), (other_covered, other_doubled) = coverage(first), coverage(second)
    stretches = list(_stretches(_without_overlap(first), _without_overlap(second)))
    missing = difference(other_covered, covered), difference(covered, other_covered)
    both = difference(covered, missing[1])
    return EpochComparison(
        epoch=epoch,
        stretches=stretches,
        missing=missing,
        doubled=(doubled, other_doubled),
        unmatched=difference(both, [(stretch.start, stretch.stop) for stretch in stretches]),
        dropped=(
            is_dropped_rest(first, missing[0], histories[0].ends()),
            is_dropped_rest(second, missing[1], histories[1].ends()),
        ),
        skipped=(num_skipped(first), num_skipped(second)),
        has_same_samples=add_hashes(first)[1] == add_hashes(second)[1],
    )


def _without_overlap(steps: Sequence[StepLine]) -> list[StepLine]:
    separate: list[StepLine] = []
    for step in steps:
        if not separate or step.start >= separate[-1].stop:
            separate.append(step)
    return separate


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
        if num_positions(one) == num_positions(other) == stop - start:
            yield Stretch(start, stop, (one[0], other[0]), add_hashes(one) == add_hashes(other))
