"""Track the progress of a loop, and its rates and shares over the last half minute."""

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from dali_pipes.monitoring.counts import Counts, sums_since
from dali_pipes.monitoring.ranks.rank_report import State
from dali_pipes.monitoring.ranks.stall import file_at, loader_threads
from dali_pipes.monitoring.recorder import Recorder, Running
from gpu_aug.compiled.clock import clock

_WINDOW_SECONDS = 30.0
"""Rates over shorter windows fluctuate; longer windows hide recent changes."""

# A file is named if at least this many samples, and this share of them, find a thread reading it.
_FEWEST_HITS, _MOST_OF = 3, 0.5


class Pulse:
    """The progress of a loop, which the training thread writes (3 us per batch) and other threads read.

    A loop begins by waiting for its first batch.

    Args:
        epoch: The epoch of the loop.

    Attributes:
        steps: Count of batches that were handed over.
        samples: Count of rows in these batches.
        first: Time of the first batch, by `clock`; None before the first batch.
        bad_samples: Count of bad samples in these batches.
        thread: Ident of the training thread.
        account: A function that asks the helper processes or Ray workers what they are doing. It takes the longest time
            to wait, in seconds, and returns a text, "" without an answer.
    """

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.steps = self.samples = self.bad_samples = 0
        self.first: float | None = None
        self.thread = threading.get_ident()
        self.account: Callable[[float], str] = _no_account
        self._asked: float | None = clock()
        self._since = clock()
        self._wait_seconds = 0.0
        self._is_over = False

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Mark a block in which the training loop waits for a batch."""
        self.thread = threading.get_ident()
        if self._asked is None:
            self._asked = self._since = clock()
        try:
            yield
        finally:
            now = clock()
            if self.first is not None:
                self._wait_seconds += max(0.0, now - self._asked)
            self._asked, self._since = None, now

    def hand_over(self, samples: int, bad_samples: int) -> None:
        """Count a batch."""
        self.steps += 1
        self.samples += samples
        self.bad_samples += bad_samples
        if self.first is None:
            self.first = clock()

    def end(self) -> None:
        """Mark the end of the loop."""
        self._asked, self._since, self._is_over = None, clock(), True
        self.account = _no_account  # dropped, because the old function holds the memory of batches

    @property
    def state(self) -> State:
        """What the process waits for: "loader", "training loop" or "over"; see `RankReport`."""
        if self._is_over:
            return "over"
        return "training loop" if self._asked is None else "loader"

    def state_seconds(self, now: float) -> float:
        """Return the duration of the present state; `now` is a time by `clock`."""
        return max(0.0, now - self._since)

    def wait_seconds(self, now: float) -> float:
        """Return the seconds since the first batch in which the training loop waited, including the present wait."""
        asked = self._asked
        under_way = max(0.0, now - asked) if asked is not None and self.first is not None else 0.0
        return self._wait_seconds + under_way


def _no_account(_seconds: float) -> str:
    return ""


class _Sums(NamedTuple):
    """Counts and times of a loop, summed up to one moment."""

    at: float
    samples: int
    wait_seconds: float
    busy: Mapping[str, float]
    totals: Counts


class Window:
    """Measures rates and shares of a loop over its last half minute.

    Args:
        pulse: The loop.
        recorder: Has the counts of the loop's stages.
    """

    def __init__(self, pulse: Pulse, recorder: Recorder) -> None:
        self._pulse, self._recorder = pulse, recorder
        self._sums: deque[_Sums] = deque()
        self._files: deque[tuple[float, str]] = deque()

    def look(self, now: float) -> None:
        """Store the present sums; does nothing before the first batch. `now` is a time by `clock`."""
        pulse, recorder = self._pulse, self._recorder
        if pulse.first is None:
            return
        while len(self._sums) > 1 and self._sums[1].at <= now - _WINDOW_SECONDS:
            self._sums.popleft()
        busy = {str(stage): seconds for stage, seconds in recorder.busy().seconds.items()}
        self._sums.append(
            _Sums(now, pulse.samples, pulse.wait_seconds(now), busy, recorder.totals())
        )

    def look_at_files(self, now: float, running: list[Running]) -> None:
        """Store which files are being read at this moment."""
        reading = {call.ident for call in running if call.stage == "read"}
        for thread in loader_threads():
            reads = thread.ident in reading or (reading and "gpu-aug-" in thread.name)
            if reads and (file := file_at(thread.frame).file):
                self._files.append((now, file))
        while self._files and self._files[0][0] < now - _WINDOW_SECONDS:
            self._files.popleft()

    def rates(self) -> dict[str, Any]:
        """Return the fields of `RankReport` that describe the window; empty while the window has no length."""
        if len(self._sums) < 2:
            return {}
        old, new = self._sums[0], self._sums[-1]
        samples, counts = new.samples - old.samples, sums_since(old.totals, new.totals)
        return {
            "window_seconds": new.at - old.at,
            "samples": samples,
            "wait_seconds": min(max(0.0, new.wait_seconds - old.wait_seconds), new.at - old.at),
            "stages": {
                stage: max(0.0, seconds - old.busy.get(stage, 0.0)) / samples
                for stage, seconds in new.busy.items()
                if samples
            },
            "core_shares": {
                str(stage): min(1.0, one.cpu_seconds / one.seconds)
                for stage, one in counts.stages.items()
                if one.seconds > 0
            },
            "whole_images": dict(counts.whole_images),
            "file": self._most_read(),
        }

    def _most_read(self) -> str:
        """Return the file that was read in most samples; "" if no file stands out."""
        files = Counter(file for _, file in self._files)
        [(file, hits)] = files.most_common(1) or [("", 0)]
        return file if hits >= max(_FEWEST_HITS, _MOST_OF * files.total()) else ""
