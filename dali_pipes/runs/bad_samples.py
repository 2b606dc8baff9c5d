"""Handle bad samples (raise, replace or skip them), and keep the ledger of their records.

`substitute` chooses the sample that replaces a bad one. `dali_pipes.stages.read_samples` reads it (for streams,
`dali_pipes.steps.streams.fetch`). `Ledger.judge` ends the run if it must not continue.
"""

import json
import logging
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

from dali_pipes.errors import BadSampleError
from dali_pipes.runs.journal import Journal
from readers.plural import counted

_log = logging.getLogger(f"gpu_aug.{__name__}")

Policy = Literal["raise", "replace", "skip"]

MAX_SUBSTITUTES = 16
"""Substitutes that are tried for one sample: if half of a dataset is bad, all of them fail for one sample in 65,536."""


@dataclass(frozen=True, slots=True)
class BadRecord:
    """One line of the ledger: the bad sample, the stage that failed, and the reason.

    `kept` is True for a damaged clip that was still handed over, with Clips(on_damaged_video="truncate"). Such a sample
    is neither raised nor replaced nor skipped, and does not count for max_bad_samples.

    Example:
        >>> damaged = open_dataset("damaged/")
        >>> loader = Loader.eval(damaged, Recipe.imagenet_eval(), batch_size=4, on_bad_sample="skip")
        >>> sum(len(batch) for batch in loader), len(damaged)
        (3, 4)
        >>> [(record.key, record.stage) for record in loader.bad_samples]
        [('cat/001.jpg', 'decode')]
    """

    key: str
    index: int
    stage: Literal["read", "header", "decode", "targets", "fields"]
    reason: str
    epoch: int
    step: int
    rank: int
    kept: bool = False


class Ledger:
    """Counts and records bad samples, and stops a run that has too many.

    Args:
        policy: The loader's `on_bad_sample`.
        budget: How many different samples may be bad on this rank before the run is stopped.
        path: A file to which one JSON object per line is appended; "{rank}" in it stands for the rank. None keeps the
            records in memory only.
        rank: Rank of this process; 0 if it is not known yet.

    Raises:
        LoaderError: The folder cannot be created; later: the file cannot be written.
    """

    def __init__(
        self, policy: Policy, budget: int, path: str | os.PathLike[str] | None, rank: int
    ) -> None:
        self.policy = policy
        self.budget = budget
        self.records: list[BadRecord] = []
        self._bad_indices: set[int] = set()
        self._journal = None if path is None else Journal("ledger", path, rank)

    def commit(self, records: Sequence[BadRecord]) -> None:
        """Record the bad samples of a batch that is about to be handed over.

        Raises:
            BadSampleError: The policy is "raise", or the budget is exceeded.
            LoaderError: The records cannot be written.
        """
        if not records:
            return
        if self._journal is not None:
            lines = [json.dumps(asdict(record)) for record in records]
            self._journal.append(lines, records[0].rank)
        self.records.extend(records)
        for record in records:
            _log_record(record, self.policy)
        self._bad_indices.update(record.index for record in records if not record.kept)
        self.judge(records)

    def judge(self, records: Sequence[BadRecord]) -> None:
        """Raise if a run must not continue with these bad samples, whether they were committed or not.

        Raises:
            BadSampleError: The policy is "raise", or the budget is exceeded.
        """
        bad = [record for record in records if not record.kept]
        if not bad:
            return
        first, last = bad[0], bad[-1]
        if self.policy == "raise":
            raise BadSampleError(
                f"sample {first.index} ({first.key}) is bad ({first.stage}: {first.reason}); repair "
                f'it, or go on without it by on_bad_sample="replace" or "skip" (gpu-aug run: --on-bad-sample)'
            )
        num_bad = len(self._bad_indices.union(record.index for record in bad))
        if num_bad > self.budget:
            raise BadSampleError(
                f"{counted(num_bad, 'bad sample')}, the last of them {last.key} ({last.reason}), but "
                f"max_bad_samples={self.budget}; repair the data, or allow more (a ledger, "
                "Monitoring(ledger=...), lists all of them)"
            )


def _log_record(record: BadRecord, policy: Policy) -> None:
    # With "raise", an error with the same text follows.
    is_error = policy == "raise" and not record.kept
    _log.log(
        logging.INFO if is_error else logging.WARNING,
        "%s (sample %d, epoch %d, step %d): %s: %s: %s",
        record.key,
        record.index,
        record.epoch,
        record.step,
        "kept though damaged" if record.kept else f"bad, {policy}",
        record.stage,
        record.reason,
    )


def substitute(seed: int, bad: Sequence[BadRecord], length: int) -> int | None:
    """Return the position whose sample replaces a bad one; it does not depend on rank, batch size or decoder.

    Args:
        seed: Seed of the loader.
        bad: Record of the sample to replace, followed by the records of substitutes that were bad, too.
        length: Count of positions in an epoch.

    Returns:
        A position in the epoch, 0 <= position < length, different for each epoch and each try; None after
        MAX_SUBSTITUTES bad substitutes.
    """
    if len(bad) > MAX_SUBSTITUTES:
        return None
    first = bad[0]
    sequence = np.random.SeedSequence(seed, spawn_key=(first.epoch, first.index, len(bad)))
    # Integers of Python: NumPy 1 would divide in float64, and choose another position.
    return int(sequence.generate_state(1, np.uint64)[0]) % length


def no_substitute(records: Sequence[BadRecord]) -> BadSampleError:
    """Return the error for a sample that could not be replaced.

    Args:
        records: Record of the sample, followed by the records of substitutes that were bad, too.
    """
    first, num_tried = records[0], len(records) - 1
    return BadSampleError(
        f"sample {first.index} ({first.key}) is bad ({first.stage}: {first.reason}), and so are all that could replace it "
        f"(tried: {num_tried}; a stream has only those near it); most of the data seem to be broken: look at them with "
        "gpu-aug inspect --verify"
    )
