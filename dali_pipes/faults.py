"""What happens to a bad sample, and the ledger of them."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from dali_pipes.errors import BadSampleError
from readers import BadSample

Policy = Literal["raise", "replace", "skip"]

# A data set in which this many samples in a row are bad is broken as a whole.
MAX_SUBSTITUTES = 16


@dataclass(frozen=True, slots=True)
class BadRecord:
    """One line of the ledger: which sample was bad, where it was noticed and why."""

    key: str
    index: int
    stage: Literal["read", "header", "decode"]
    reason: str
    epoch: int
    step: int
    rank: int


class Ledger:
    """Counts bad samples, writes them down and stops a run that loses too many.

    Args:
        policy: What the loader does with a bad sample.
        budget: How many bad samples a run may meet on this rank before it is stopped.
        path: A file that gets one JSON object per line, appended to; None keeps the records in memory only.
    """

    def __init__(self, policy: Policy, budget: int, path: Path | None) -> None:
        self.policy = policy
        self.budget = budget
        self.path = path
        self.records: list[BadRecord] = []

    def commit(self, records: Sequence[BadRecord]) -> None:
        """Write down the bad samples of a batch that is about to be handed over.

        Raises:
            BadSampleError: Under "raise", or when the budget is spent.
        """
        if not records:
            return
        self.records.extend(records)
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(asdict(record)) + "\n" for record in records)
        first = records[0]
        if self.policy == "raise":
            raise BadSampleError(
                f"sample {first.index} ({first.key}) is bad ({first.stage}: {first.reason}); repair or "
                f'remove it, or go on without it by on_bad_sample="replace" or "skip"'
            )
        if len(self.records) > self.budget:
            raise BadSampleError(
                f"{len(self.records)} bad samples, the last of them {records[-1].key} "
                f"({records[-1].reason}), but max_bad_samples={self.budget}; look at the ledger, then "
                f"repair the data or allow more"
            )


def substitute(seed: int, epoch: int, bad: BadSample, attempt: int, length: int) -> int:
    """The sample that takes the place of a bad one: the same on any rank, batch size and decoder.

    Args:
        seed: The loader's seed.
        epoch: The epoch, so that another epoch draws another substitute.
        bad: The sample to replace.
        attempt: 0 for the first try; counts up while substitutes are bad, too.
        length: Number of samples in the dataset.

    Returns:
        An index with 0 <= index < length.
    """
    if attempt >= MAX_SUBSTITUTES:
        raise BadSampleError(
            f"sample {bad.index} ({bad.key}) is bad ({bad.reason}), and so are the {MAX_SUBSTITUTES} "
            f"samples drawn to replace it; look at the dataset with on_bad_sample='raise'"
        )
    sequence = np.random.SeedSequence(seed, spawn_key=(epoch, bad.index, attempt))
    return int(sequence.generate_state(1, np.uint64)[0] % length)
