"""What happens to a bad sample, and the ledger of them."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from dali_pipes.errors import BadSampleError, LoaderError

Policy = Literal["raise", "replace", "skip"]

MAX_SUBSTITUTES = 16


@dataclass(frozen=True, slots=True)
class BadRecord:
    """One line of the ledger: which sample was bad, where it was noticed and why."""

    key: str
    index: int
    stage: Literal["read", "header", "decode", "targets"]
    reason: str
    epoch: int
    step: int
    rank: int


class Ledger:
    """Counts bad samples, writes them down and stops a run that loses too many.

    Args:
        policy: What the loader does with a bad sample.
        budget: How many different samples may be bad on this rank before the run is stopped.
        path: A file that gets one JSON object per line, appended to; None keeps the records in memory only.
    """

    def __init__(self, policy: Policy, budget: int, path: Path | None) -> None:
        self.policy = policy
        self.budget = budget
        self.path = path
        self.records: list[BadRecord] = []
        if path is not None and not path.absolute().parent.is_dir():
            raise LoaderError(
                f"ledger={str(path)!r} cannot be written: there is no folder {path.absolute().parent}; "
                f"make it or choose another place"
            )

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
                f'remove it, or go on without it by on_bad_sample="replace" or "skip" (gpu-aug run: --on-bad-sample)'
            )
        num_bad = len({record.index for record in self.records})
        if num_bad > self.budget:
            raise BadSampleError(
                f"{num_bad} bad samples, the last of them {records[-1].key} "
                f"({records[-1].reason}), but max_bad_samples={self.budget}; look at the ledger, then "
                f"repair the data or allow more"
            )


def substitute(seed: int, bad: Sequence[BadRecord], length: int) -> int | None:
    """The position whose sample takes the place of a bad one: the same on any rank, batch size and decoder.

    Args:
        seed: The loader's seed.
        bad: The sample to replace, followed by the substitutes that turned out to be bad, too.
        length: Positions in an epoch.

    Returns:
        A position in the epoch, 0 <= position < length, another one for each epoch and each try; None when so many
        substitutes are bad that the dataset must be broken as a whole.
    """
    if len(bad) > MAX_SUBSTITUTES:
        return None
    first = bad[0]
    sequence = np.random.SeedSequence(seed, spawn_key=(first.epoch, first.index, len(bad)))
    return int(sequence.generate_state(1, np.uint64)[0] % length)


def no_substitute(first: BadRecord) -> BadSampleError:
    """The error for a sample for which no good substitute was found."""
    return BadSampleError(
        f"sample {first.index} ({first.key}) is bad ({first.stage}: {first.reason}), and so are the "
        f"{MAX_SUBSTITUTES} samples drawn to replace it; most of the dataset seems to be broken: look "
        f"at the ledger and at the path"
    )
