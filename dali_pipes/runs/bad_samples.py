"""What happens to a bad sample, and the ledger of them."""

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


@dataclass(frozen=True, slots=True)
class BadRecord:
    """One line of the ledger: which sample was bad, where it was noticed and why.

    `kept` says that it was handed over all the same, a damaged clip under Clips(on_damaged_video="truncate").
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
    """Counts bad samples, writes them down and stops a run that loses too many.

    Args:
        policy: What the loader does with a bad sample.
        budget: How many different samples may be bad on this rank before the run is stopped.
        path: A file that gets one JSON object per line, appended to; "{rank}" in it stands for the rank. None
            keeps the records in memory only.
        rank: As far as it is known.

    Raises:
        LoaderError: There is no such folder; later: the file cannot be written.
    """

    def __init__(
        self, policy: Policy, budget: int, path: str | os.PathLike[str] | None, rank: int
    ) -> None:
        self.policy = policy
        self.budget = budget
        self.records: list[BadRecord] = []
        self._lost: set[int] = set()  # indices of those that were not kept
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
        for one in records:
            what = "kept though damaged" if one.kept else f"bad, {self.policy}"
            where = f"epoch {one.epoch}, step {one.step}"
            # An error follows that says the same.
            ends = self.policy == "raise" and not one.kept
            _log.log(
                logging.INFO if ends else logging.WARNING,
                "%s (sample %d, %s): %s: %s: %s",
                one.key,
                one.index,
                where,
                what,
                one.stage,
                one.reason,
            )
        self._lost.update(record.index for record in records if not record.kept)
        self.judge(records)

    def judge(self, records: Sequence[BadRecord]) -> None:
        """Stop a run that must not go on with bad samples, which are written down or not yet.

        Raises:
            BadSampleError: Under "raise", or when the budget is spent.
        """
        lost = [record for record in records if not record.kept]
        if not lost:
            return
        first = lost[0]
        if self.policy == "raise":
            raise BadSampleError(
                f"sample {first.index} ({first.key}) is bad ({first.stage}: {first.reason}); repair "
                f'it, or go on without it by on_bad_sample="replace" or "skip" (gpu-aug run: --on-bad-sample)'
            )
        num_bad = len(self._lost) + len({one.index for one in lost} - self._lost)
        if num_bad > self.budget:
            raise BadSampleError(
                f"{counted(num_bad, 'bad sample')}, the last of them {lost[-1].key} ({lost[-1].reason}), but "
                f"max_bad_samples={self.budget}; {self._where_to_look(lost)}, then repair the data or allow more"
            )

    def _where_to_look(self, lost: Sequence[BadRecord]) -> str:
        if self._journal is not None:
            return f"look at the ledger {self._journal.path(lost[0].rank)}"
        known = [record for record in self.records if not record.kept]
        keys = list(dict.fromkeys(record.key for record in [*known, *lost]))
        more = f" and {len(keys) - 3:,} more" if len(keys) > 3 else ""
        return f"look at {', '.join(keys[:3])}{more} (a ledger keeps all of them)"


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


def no_substitute(records: Sequence[BadRecord]) -> BadSampleError:
    """The error for a sample for which no good substitute was found.

    Args:
        records: The sample, followed by the substitutes that turned out to be bad, too.
    """
    first, num_drawn = records[0], len(records) - 1
    drawn = f"so are the {num_drawn} samples drawn to replace it"
    if num_drawn < MAX_SUBSTITUTES:  # of a stream, which has no others at hand
        drawn = (
            f"{drawn}, all that a stream has of its step and near it"
            if num_drawn
            else ("a stream has no other sample of its step or near it")
        )
    return BadSampleError(
        f"sample {first.index} ({first.key}) is bad ({first.stage}: {first.reason}), and {drawn}; most of the dataset "
        "seems to be broken: look at it with gpu-aug inspect --verify"
    )
