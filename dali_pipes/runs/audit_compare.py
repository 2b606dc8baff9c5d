"""Compare two runs by their audit files: whether they had the same samples in the same order, or where they differ.

The comparison uses the hashes `places` and `samples` of the step lines, added up over all ranks. It does not use
`rolling`, which is for people who compare one rank of two runs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dali_pipes.runs.audit_check import (
    Faults,
    Range,
    describe_ranges,
    edges_of,
    find_faults,
    ranges_of,
    subtract,
    sum_of_samples,
    summarize,
)
from dali_pipes.runs.audit_history import IDENTITY, History, StepLine, read_history


@dataclass(frozen=True)
class EpochComparison:
    """One epoch of two runs.

    Attributes:
        epoch: The epoch, counted from 0.
        steps: The steps of each run, ordered by position.
        faults: For each run, the positions that it lacks compared with the other run, and those that it repeats.
        compared: Ranges at whose start and stop both runs have a step boundary, so that their hashes can be compared.
        different: The ranges of `compared` in which the samples differ.
        unmatched: Positions that both runs have, but in steps with different boundaries, so that no hashes can be compared.
    """

    epoch: int
    steps: tuple[Sequence[StepLine], Sequence[StepLine]]
    faults: tuple[Faults, Faults]
    compared: list[Range]
    different: list[Range]
    unmatched: list[Range]

    @property
    def same(self) -> bool:
        """Whether the same samples came in the same order, each position equally often, as far as hashes can be compared.

        The rest that last_batch="drop" leaves out does not count as a difference, because it depends on the batch size.
        """
        has_faults = any(one.doubled or (one.missing and not one.is_dropped) for one in self.faults)
        can_compare = bool(self.compared) or not self.unmatched
        return can_compare and not (self.different or has_faults)

    def lines(self) -> Iterator[str]:
        """Yield the report of the epoch, line by line."""
        count = sum(stop - start for start, stop in self.compared)
        if self.different:
            yield from self._differences()
        else:
            yield f"same, {count} positions in {len(self.compared)} stretches"
        for name, faults in zip("AB", self.faults, strict=True):
            yield from (f"{name} {line}" for line in faults.lines())
        if self.unmatched:
            yield f"in both, but not compared, since steps end elsewhere: {describe_ranges(self.unmatched)}"

    def _differences(self) -> Iterator[str]:
        start, stop = self.different[0]
        firsts = [next(step for step in steps if step.start >= start) for steps in self.steps]
        where = " and ".join(
            f"step {step.step} of {name} (rank {step.rank} of {step.world_size})"
            for name, step in zip("AB", firsts, strict=True)
        )
        yield (
            f"other samples, first within positions {start} to {stop - 1}, {where}; in {len(self.different)} of "
            f"{len(self.compared)} stretches"
        )
        if sum_of_samples(self.steps[0]) == sum_of_samples(self.steps[1]):
            yield "but the same samples as a whole, in another order"


@dataclass(frozen=True)
class AuditComparison:
    """The result for two runs.

    Attributes:
        histories: For each run, the steps that count after all resumes.
        epochs: The comparison of each epoch that at least one of the runs has.
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
        """Whether one of the runs continued from a state of the other one."""
        first, second = self.histories
        return first.continues(second) or second.continues(first)

    def lines(self) -> list[str]:
        """Return the report, line by line."""
        first, second = (history.run for history in self.histories)
        end = (
            "same samples in the same order"
            if self.same
            else "NOT the same samples in the same order"
        )
        return [
            *(summarize(name, run) for name, run in zip("AB", self.histories, strict=True)),
            *(
                f"the runs have another {name}: {first[name]} in A, {second[name]} in B"
                for name in IDENTITY
                if name in first and name in second and first[name] != second[name]
            ),
            *(f"epoch {epoch.epoch}: {line}" for epoch in self.epochs for line in epoch.lines()),
            end,
        ]


def compare_audits(first: str | Path, second: str | Path) -> AuditComparison:
    """Compare the samples that two runs handed over, on any number of ranks and after any number of resumes.

    Args:
        first: A file, a folder with .jsonl files, or a pattern for the files of ``Monitoring(audit="run-{rank}.jsonl")``.
        second: A file, folder or pattern with the audit of the other run.

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
    """Compare the histories of two runs; see `compare_audits`."""
    epochs = sorted({*first.epochs, *second.epochs})
    return AuditComparison((first, second), [_compare_epoch(n, first, second) for n in epochs])


def _compare_epoch(epoch: int, first: History, second: History) -> EpochComparison:
    steps, others = first.epochs.get(epoch, []), second.epochs.get(epoch, [])
    own, other = ranges_of(steps), ranges_of(others)
    faults = find_faults(steps, other, first.ends), find_faults(others, own, second.ends)
    cuts = np.intersect1d(edges_of(own), edges_of(other))
    lengths, hashes = _add_between(steps, cuts)
    other_lengths, other_hashes = _add_between(others, cuts)
    # Ranges with missing or repeated positions have another length; they are reported as faults.
    can_compare = (lengths == np.diff(cuts)) & (other_lengths == np.diff(cuts))
    is_equal = (hashes == other_hashes).all(axis=1)
    stretches = np.stack([cuts[:-1], cuts[1:]], axis=1)
    compared = list(map(tuple, stretches[can_compare].tolist()))
    repeated = [*faults[0].doubled, *faults[1].doubled]
    return EpochComparison(
        epoch=epoch,
        steps=(steps, others),
        faults=faults,
        compared=compared,
        different=list(map(tuple, stretches[can_compare & ~is_equal].tolist())),
        unmatched=subtract(own, [*faults[1].missing, *repeated, *compared]),
    )


def _add_between(
    steps: Sequence[StepLine], cuts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Add up the counts and hashes of the steps that start in each interval [cuts[i], cuts[i + 1]).

    Returns:
        The number of positions that these steps cover, int64 [n - 1], and the sums of their hashes `places` and `samples`,
        uint64 [n - 1, 2], modulo 2**64.
    """
    numbers = np.searchsorted(cuts, [step.start for step in steps], side="right")
    lengths = np.zeros(len(cuts) + 1, np.int64)
    np.add.at(lengths, numbers, [step.stop - step.start for step in steps])
    hashes = np.zeros((len(cuts) + 1, 2), np.uint64)
    own = np.array([(step.places, step.samples) for step in steps], np.uint64)
    np.add.at(hashes, numbers, own.reshape(-1, 2))
    return lengths[1:-1], hashes[1:-1]
