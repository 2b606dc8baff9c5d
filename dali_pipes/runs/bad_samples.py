"""What happens to a bad sample: raise, replace or skip; its record; and the ledger of all records.

`substitute` chooses the sample that replaces a bad one. `dali_pipes.stages.read_samples` reads it, and
`dali_pipes.steps.streams.fetch` for streams. `Ledger.judge` ends the run where it must not continue.
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
"""Substitutes that are tried for one sample: if half of a dataset is bad, all fail for one sample in 65,536."""


@dataclass(frozen=True, slots=True)
class BadRecord:
    """One line of the ledger: which sample was bad, in which stage and why.

    `kept` is True for a damaged clip that was handed over all the same, under Clips(on_damaged_video="truncate").
    Such a sample is neither raised nor replaced nor skipped, and does not count for max_bad_samples.

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
    """Counts bad samples, writes them down and stops a run that has too many.

    Args:
        policy: What the loader does with a bad sample.
        budget: How many different samples may be bad on this rank before the run is stopped.
        path: A file that gets one JSON object per line, appended; "{rank}" in it stands for the rank. None keeps the
            records in memory only.
        rank: Rank of this process, as far as it is known.

    Raises:
        LoaderError: The folder cannot be made; later: the file cannot be written.
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
        """Write down the bad samples of a batch that is about to be handed over.

        Raises:
            BadSampleError: Under "raise", or when the budget is spent.
            LoaderError: They cannot be written.
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
        """Stop a run that must not continue with these bad samples, whether they were committed or not.

        Raises:
            BadSampleError: Under "raise", or when the budget is spent.
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
    # Under "raise" an error follows that says the same.
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
    """Return the position whose sample replaces a bad one: the same on any rank, batch size and decoder.

    Args:
        seed: Seed of the loader.
        bad: The sample to replace, followed by the substitutes that turned out to be bad, too.
        length: Number of positions in an epoch.

    Returns:
        A position in the epoch, 0 <= position < length, another one for each epoch and each try; None after
        MAX_SUBSTITUTES bad substitutes.
    """
    if len(bad) > MAX_SUBSTITUTES:
        return None
    first = bad[0]
    sequence = np.random.SeedSequence(seed, spawn_key=(first.epoch, first.index, len(bad)))
    return int(sequence.generate_state(1, np.uint64)[0] % length)


def no_substitute(records: Sequence[BadRecord]) -> BadSampleError:
    """Return the error for a sample that could not be replaced.

    Args:
        records: The sample, followed by the substitutes that turned out to be bad, too.
    """
    first, num_tried = records[0], len(records) - 1
    return BadSampleError(
        f"sample {first.index} ({first.key}) is bad ({first.stage}: {first.reason}), and so are all that could replace it "
        f"(tried: {num_tried}; a stream has only those near it); most of the data seem to be broken: look at them with "
        "gpu-aug inspect --verify"
    )
