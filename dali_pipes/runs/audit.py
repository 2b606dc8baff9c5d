"""What a rank was handed, as hashes: proof that an interrupted run saw what an uninterrupted one sees."""

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

_MASK = (1 << 64) - 1
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # SplitMix64's
_STEP = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio
_FIRST, _SECOND, _STRIDE = (np.uint64(value) for value in (*_MULTIPLIERS, _STEP))
_HALF = np.uint64(32)


@dataclass(frozen=True, slots=True)
class Tally:
    """What one rank was handed since its first loop, or since a state was loaded.

    Sums of several ranks are added modulo 2**64; they then depend neither on the number of ranks nor on
    the batch size. Rows that only fill up a batch and samples that were skipped do not count; of a sample
    that was replaced, the substitute does.

    Attributes:
        epoch: The epoch of the last batch.
        steps: Batches.
        count: Samples in this epoch.
        samples: 64 bits: the sum of a hash of each sample's index in this epoch, whatever their order.
        places: 64 bits: the sum of a hash of (epoch, position, index) in this epoch.
        rolling: 64 bits over all batches, their order included; one rank's alone. Not for `gpu-aug audit`, which
            compares samples and places: for people, who see at a glance whether two ranks had the same.
    """

    epoch: int = 0
    steps: int = 0
    count: int = 0
    samples: int = 0
    places: int = 0
    rolling: int = 0


class Audit:
    """Adds up what is handed over, and writes a line for each step if it has a path.

    A line is written whole or, if the process is killed, not to its end; whatever reads the file leaves
    such a line out. Lines of a resumed run are appended. See journal.

    Args:
        path: Where the lines go; RANK in it stands for the rank. None keeps the tally only.
        rank: As far as it is known.
        writes: Whether this process writes the lines of its rank; another one may have the same samples.

    Attributes:
        tally: What was handed over.
        attempts: Which attempt of the run this is, for who reads the files; see attempt.

    Raises:
        LoaderError: The folder cannot be made; later: the file cannot be written.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None, rank: int, *, writes: bool = True
    ) -> None:
        self.tally = Tally()
        self.attempts = Attempts()
        self._ranks = {"rank": 0, "world_size": 1}
        self._is_named = path is not None
        self._journal = Journal("audit", path, rank) if path is not None and writes else None

    def require_own_file(self, process: Process) -> None:
        """Refuse a file that several ranks would share."""
        journal = self._journal
        if journal is not None and process.world_size > 1 and RANK not in journal.name:
            raise LoaderError(
                f"audit={journal.name!r} would be one file for {process.world_size} ranks; put {RANK} where the "
                f"rank's number goes, as in 'run-{RANK}.jsonl'"
            )

    def begin(
        self,
        epoch: int,
        had: Sequence[tuple[int, int]],
        process: Process,
        run: Callable[[], Mapping[str, Any]],
    ) -> None:
        """A loop starts that does not follow from the one before: the first, or one of a loaded state.

        Args:
            epoch: Where it starts.
            had: Positions of that epoch that were handed over before, to all ranks, start and stop (half open): of
                each bucket, where there are buckets.
            process: Whose loop it is.
            run: Returns what identifies the run; asked only if a file needs it.
        """
        self.tally = Tally(epoch=epoch)
        self._ranks = {"rank": process.rank, "world_size": process.world_size}
        consumed = sum(stop - start for start, stop in had)
        if self._is_named:
            name, after = self.attempts.begin((epoch, consumed), process)
        if self._journal is not None:
            now = round(time.time(), 3)
            line: dict[str, Any] = {"begin": [epoch, consumed], "attempt": name, "after": after}
            line |= {**self._ranks, "time": now, **run()}
            if len(had) > 1:
                line["had"] = [list(one) for one in had]
            self._journal.append([json.dumps(line)], process.rank)

    def count(self, finished: Finished) -> None:
        """Count a step that is handed over."""
        plan, before = finished.plan, self.tally
        rows = plan.rows[plan.valid]
        positions = plan.positions[rows]
        start = int(positions[0]) if len(rows) else total(plan.consumed)
        stop = start + len(rows)
        kept = finished.kept[rows]
        rows, positions = rows[kept], positions[kept]
        samples, places = sums(plan.epoch, positions, finished.indices[rows])
        again = plan.epoch == before.epoch
        tally = Tally(
            plan.epoch,
            before.steps + 1,
            before.count * again + len(rows),
            (before.samples * again + samples) & _MASK,
            (before.places * again + places) & _MASK,
            rolled(before.rolling, places),
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
        self.tally = tally


def sums(epoch: int, positions: NDArray[np.int64], indices: NDArray[np.int64]) -> tuple[int, int]:
    """Return the sums, modulo 2**64, of a hash of each index and of each (epoch, position, index).

    Args:
        epoch: At least 0.
        positions: int64 [n], at least 0.
        indices: int64 [n], what was handed over for them.
    """
    # One after the other: above 500 numbers NumPy gives Python's lock away, and waits for it.
    places = positions.view(np.uint64) * _STRIDE
    places += np.uint64(_mixed(epoch + 1))
    _mix(places)
    found = []
    for values in (np.zeros_like(places), places):
        values ^= indices.view(np.uint64)
        values += _STRIDE
        _mix(values)
        found.append(int(values.sum()))
    return found[0], found[1]


def rolled(before: int, places: int) -> int:
    """Return the hash of a sequence that goes on with one more step."""
    return _mixed(_mixed(before + 1) ^ places)


def _mix(values: NDArray[np.uint64]) -> None:
    """Let the upper bits depend on all bits, in place."""
    values *= _FIRST
    values ^= values >> _HALF
    values *= _SECOND


def _mixed(value: int) -> int:
    value = value * _MULTIPLIERS[0] & _MASK
    value ^= value >> 32
    value = value * _MULTIPLIERS[1] & _MASK
    return value ^ value >> 32
