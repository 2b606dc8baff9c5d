"""Write the audit of a run: hashes of the samples that each rank received, to compare runs."""

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dali_pipes.arguments.process_rank import Process
from dali_pipes.errors import LoaderError
from dali_pipes.runs.attempt import Attempts
from dali_pipes.runs.journal import RANK, Journal
from dali_pipes.stages.data import Finished
from dali_pipes.steps.schedule import total

HASH_MASK = (1 << 64) - 1
"""Hashes and their sums are numbers modulo 2**64."""

_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # constants of SplitMix64
# Created once: creating a NumPy scalar takes 0.1 us, in every step.
_FIRST, _SECOND, _HALF = np.uint64(_MULTIPLIERS[0]), np.uint64(_MULTIPLIERS[1]), np.uint64(32)
_STRIDE = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio, as in SplitMix64


@dataclass(frozen=True, slots=True)
class Tally:
    """Sums over the samples that one rank received since its first loop, or since a state was loaded.

    Sums of several ranks are added modulo 2**64; the totals depend neither on the number of ranks nor on the batch
    size. Padded rows and skipped samples do not count; for a replaced sample, its substitute counts.

    Attributes:
        epoch: The epoch of the last batch.
        steps: Count of batches.
        count: Count of samples in this epoch.
        samples: 64 bits: the sum of a hash of each sample's index in this epoch, in any order.
        places: 64 bits: the sum of a hash of each (epoch, position, index) in this epoch.
        rolling: 64 bits: a hash of all batches of this rank and their order. It shows at a glance whether two ranks
            received equal batches; ``gpu-aug audit`` compares samples and places.
    """

    epoch: int = 0
    steps: int = 0
    count: int = 0
    samples: int = 0
    places: int = 0
    rolling: int = 0


class Audit:
    """Adds up the hashes of the batches that are handed over and, given a path, writes a line for each step.

    Args:
        path: The file; RANK in it stands for the rank. None keeps only the tally.
        rank: Rank of this process; 0 if it is not known yet.
        writes: Whether this process writes the lines of its rank; in a mesh, another process may have the same samples.

    Attributes:
        tally: Sums over the samples that were handed over.
        attempts: Names the attempts of the run.

    Raises:
        LoaderError: The folder cannot be created; later: the file cannot be written.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None, rank: int, *, writes: bool = True
    ) -> None:
        self.tally = Tally()
        self.attempts = Attempts()
        self._ranks = {"rank": 0, "world_size": 1}
        self._has_path = path is not None
        self._journal = Journal("audit", path, rank) if path is not None and writes else None

    def require_own_file(self, process: Process) -> None:
        """Raise a LoaderError if several ranks would write to one file, because `path` has no "{rank}"."""
        journal = self._journal
        if journal is not None and process.world_size > 1 and RANK not in journal.name:
            raise LoaderError(
                f"audit={journal.name!r} would be one file for {process.world_size} ranks; put {RANK} where the "
                f"rank's number goes, as in 'run-{RANK}.jsonl'"
            )

    def begin(
        self,
        epoch: int,
        handed_over: Sequence[tuple[int, int]],
        process: Process,
        run: Callable[[], Mapping[str, Any]],
    ) -> None:
        """Start an attempt of the run: a loop that does not continue the previous loop of this loader.

        Examples are the first loop, and a loop after loading a state.

        Args:
            epoch: Epoch of the loop.
            handed_over: Positions of that epoch that all ranks together received before, as (start, stop), half open;
                one pair per bucket.
            process: Rank and world size.
            run: Returns the identity of the run; only called if a file is written.
        """
        self.tally = Tally(epoch=epoch)
        self._ranks = {"rank": process.rank, "world_size": process.world_size}
        consumed = sum(stop - start for start, stop in handed_over)
        if self._has_path:
            name, after = self.attempts.begin((epoch, consumed), process)
        if self._journal is not None:
            now = round(time.time(), 3)  # for people; no decision depends on it
            line: dict[str, Any] = {"begin": [epoch, consumed], "attempt": name, "after": after}
            line |= {**self._ranks, "time": now, **run()}
            if len(handed_over) > 1:
                line["had"] = [list(pair) for pair in handed_over]
            self._journal.append([json.dumps(line)], process.rank)

    def count(self, finished: Finished) -> None:
        """Count a step that is about to be handed over, and write the step's line to the file."""
        plan, before = finished.plan, self.tally
        rows = plan.rows[plan.valid]
        positions = plan.positions[rows]
        start = int(positions[0]) if len(rows) else total(plan.consumed)
        stop = start + len(rows)
        kept = finished.has_sample[rows]
        rows, positions = rows[kept], positions[kept]
        samples, places = sums(plan.epoch, positions, finished.indices[rows])
        if plan.epoch != before.epoch:
            before = Tally(plan.epoch, before.steps, rolling=before.rolling)
        tally = Tally(
            plan.epoch,
            before.steps + 1,
            before.count + len(rows),
            (before.samples + samples) & HASH_MASK,
            (before.places + places) & HASH_MASK,
            _mix_number(_mix_number(before.rolling + 1) ^ places),
        )
        if self._journal is not None:
            line = {
                "epoch": plan.epoch,
                "step": plan.step,
                **self._ranks,
                "start": start,
                "stop": stop,
                "count": len(rows),
                "samples": f"{samples:016x}",
                "places": f"{places:016x}",
                "rolling": f"{tally.rolling:016x}",
            }
            self._journal.append([json.dumps(line)], self._ranks["rank"])
        self.tally = tally  # set last: a step whose line cannot be written is not handed over


def sums(epoch: int, positions: NDArray[np.int64], indices: NDArray[np.int64]) -> tuple[int, int]:
    """Return the sums, modulo 2**64, of a hash of each index, and of a hash of each (epoch, position, index).

    Args:
        epoch: The epoch, at least 0.
        positions: int64 [n], positions in the epoch's order, at least 0.
        indices: int64 [n], the index in the dataset of the sample at each position.
    """
    # In place, one array after the other: for more than 500 numbers NumPy releases the GIL, and waits to get it back.
    places = positions.view(np.uint64) * _STRIDE
    places += np.uint64(_mix_number(epoch + 1))
    _mix(places)
    results = []
    for values in (np.zeros_like(places), places):
        values ^= indices.view(np.uint64)
        values += _STRIDE
        _mix(values)
        results.append(int(values.sum()))
    return results[0], results[1]


def _mix(values: NDArray[np.uint64]) -> None:
    """Hash numbers in place, so that the upper bits of each depend on all its bits."""
    values *= _FIRST
    values ^= values >> _HALF
    values *= _SECOND


def _mix_number(value: int) -> int:
    """Return a hash of a number, in which every bit depends on all bits of the number."""
    value = value * _MULTIPLIERS[0] & HASH_MASK
    value ^= value >> 32
    value = value * _MULTIPLIERS[1] & HASH_MASK
    return value ^ value >> 32
