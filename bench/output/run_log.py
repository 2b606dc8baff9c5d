"""Write the log of a run as complete lines of JSON, so that the log of a killed run can be read."""

import json
import threading
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import numpy as np

from dali_pipes import Batch, Loader
from dali_pipes.machine.description import commit, machine, versions
from dali_pipes.monitoring import Stats
from gpu_aug.compiled.clock import clock

EVERY_SECONDS = 1.0


class RunLogWriter:
    """Writes the log of a run: a line at its start, one every second and for each bad sample, and one at its end.

    The lines by their ``kind``: "run" describes the run and its data. "stats" has `Stats.to_dict` since the loader was
    made, the time ``at`` in seconds, and the epoch. "bad_sample" has a record of the ledger. "end" has the statistics
    of each epoch, the coverage of the last epoch, and ``stopped``, the name of the exception that ended the run early,
    or None. Each line is written by one system call, so that a killed run leaves complete lines, except for the last
    one on a full disk.

    Args:
        path: The file; it is replaced.
        loader: The running loader.
        described: For the first line: "data", "recipe" and "settings".
    """

    def __init__(self, path: Path, loader: Loader, described: Mapping[str, Any]) -> None:
        self._file = path.open("wb", buffering=0)
        self._loader, self._described = loader, described
        self._began, self._num_bad = clock(), 0
        self._epochs: dict[str, dict[str, Any]] = {}
        self._coverage = Coverage(len(loader._setup.options.dataset))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep_on, name="run log", daemon=True)

    def __enter__(self) -> Self:
        self._write(
            "run",
            **self._described,
            explain=self._loader.explain(),
            versions=versions(),
            machine=machine(),
            commit=commit(),
        )
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._note()
        self._write(
            "end",
            at=self._at(),
            stats=self._epochs,
            coverage=self._coverage.to_dict(),
            stopped=None if kind is None else kind.__name__,
        )
        self._file.close()

    def count(self, batch: Batch) -> None:
        """Count a batch that was handed over."""
        self._coverage.count(self._loader.epoch, batch)

    def end_epoch(self, stats: Stats) -> None:
        """Record the statistics of a completed epoch."""
        self._epochs[str(stats.epoch)] = stats.to_dict()

    def _keep_on(self) -> None:
        while not self._over.wait(EVERY_SECONDS):
            self._note()

    def _note(self) -> None:
        """Write the present statistics and new bad samples."""
        bad = self._loader.bad_samples[self._num_bad :]
        self._num_bad += len(bad)
        for record in bad:
            self._write("bad_sample", **asdict(record))
        stats = self._loader.stats("run")
        self._write("stats", **{**stats.to_dict(), "at": self._at(), "epoch": stats.epoch})

    def _at(self) -> float:
        return round(clock() - self._began, 3)

    def _write(self, kind: str, **content: Any) -> None:
        """Write a line. The thread only writes between its start and its end, so no two lines are written at once."""
        self._file.write(json.dumps({"kind": kind, **content}).encode() + b"\n")


class Coverage:
    """Counts which samples of a dataset an epoch has handed over.

    Args:
        length: Count of samples in the dataset.
    """

    def __init__(self, length: int) -> None:
        self._seen = np.zeros(length, bool)
        self._epoch, self._rows = 0, 0

    def count(self, epoch: int, batch: Batch) -> None:
        """Count the rows of a batch; rows that only fill it up do not count."""
        if epoch != self._epoch:
            self._seen[:] = False
            self._epoch, self._rows = epoch, 0
        indices = batch.indices[batch.valid].numpy()
        self._seen[indices] = True
        self._rows += len(indices)

    def to_dict(self) -> dict[str, int]:
        """Return the epoch, and the counts of its different samples, of the dataset's samples, and of repeated rows."""
        different = int(self._seen.sum())
        return {
            "epoch": self._epoch,
            "samples": different,
            "of": len(self._seen),
            "repeated": self._rows - different,
        }
