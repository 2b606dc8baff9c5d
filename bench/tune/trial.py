"""Run trials: of a loader with a simulated training step, or of reading alone, within a limited time."""

import itertools
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat
from typing import Any

import numpy as np

from bench.compare.threads import results_ahead
from bench.timing import Measurement, Turn, measure_in_turns, synchronise, take_turn
from dali_pipes import BadSampleError, Batch, Loader
from dali_pipes.monitoring import Stats
from gpu_aug.compiled.clock import clock
from readers import Dataset, Sample

# Otherwise a loader with slow batches would rest for most of the measuring time.
_REST_SECONDS_MAX = 3.0
_START_SECONDS = 0.1
_PAGE_BYTES = 4096


Contestant = Callable[[float], Turn]
"""A function that works for some seconds, then waits until its threads are idle, so that the next contestant has the
machine to itself."""


@dataclass
class Pace:
    """The time for trials: the length of measurements, and when everything should be over.

    Attributes:
        turn_seconds: Length in seconds of a turn (timed interval of one contestant).
        turn_cost_seconds: Recent duration of a turn, including emptying and filling queues.
        until: Time at which everything should be over, by `clock`.
        progress: Called with a line of text before every turn.
        clock: A function that returns the time in seconds. The default clock stops while functions are compiled, once
            per machine.
    """

    turn_seconds: float
    turn_cost_seconds: float
    until: float
    progress: Callable[[str], object] = lambda _: None
    clock: Callable[[], float] = clock

    @property
    def turns_left(self) -> int:
        """Count of turns that fit into the remaining time; negative if the time is over."""
        return int((self.until - self.clock()) / max(self.turn_cost_seconds, 1e-9))

    def measure(
        self,
        contestants: Mapping[str, Contestant],
        rounds: int,
        what: str,
        on_failure: Callable[[str, Exception], object] | None = None,
    ) -> dict[str, Measurement]:
        """Measure contestants alternately: each gets a turn (timed interval) in every round.

        Args:
            contestants: The contestants by name.
            rounds: Count of rounds, which is the count of turns of each contestant.
            what: Description of the measurement, for `progress`.
            on_failure: Called with the name and the error of a contestant that raised; None raises the error.
        """
        began = self.clock()
        measured = measure_in_turns(
            contestants,
            seconds=self.turn_seconds,
            rounds=rounds,
            progress=lambda text: self.progress(f"{what}: {text}"),
            on_failure=on_failure,
        )
        self.turn_cost_seconds = (self.clock() - began) / (rounds * len(contestants))
        return measured


def reason_of(error: Exception) -> str:
    """Return the text of an error as one line.

    Raises:
        dali_pipes.BadSampleError: `error` itself, if it is a BadSampleError: a bad sample does not depend on the tried
            settings.
    """
    if isinstance(error, BadSampleError):
        raise error
    return " ".join(str(error).split()) or type(error).__name__


class Trial:
    """A loader at work, with a consumer that sleeps after each batch for the time of a training step.

    Between its turns no batch is taken. A turn starts by emptying the queue, before the clock starts, and ends when the
    queue is full again, so that the loader takes no time from others.

    Args:
        loader: The loader to measure.
        step_seconds: Length of a training step in seconds; 0 takes batches as fast as possible.
        epoch: The epoch with which the trial begins.

    Attributes:
        loader: The loader to measure; `step_seconds` is stored, too.
        record: Each turn (timed interval) with the training step, and the loader's statistics for it.

    Raises:
        dali_pipes.LoaderError: The loader is invalid; other errors of the packages are possible.
    """

    def __init__(self, loader: Loader, *, step_seconds: float = 0.0, epoch: int = 0) -> None:
        self.loader = loader
        self.record: list[tuple[Turn, Stats]] = []
        self.step_seconds, self._size = step_seconds, 0
        try:
            self.loader.set_epoch(epoch)
            # Epoch after epoch.
            self._batches = chain.from_iterable(repeat(self.loader))
            # The first batch includes the start, so it does not show how fast the queue fills.
            self._rest(take_turn(self._take, seconds=_START_SECONDS, discard=1))
        except BaseException:
            self.close()
            raise

    @property
    def num_ahead(self) -> int:
        """Count of batches that the loader makes ahead."""
        return max(self.loader.stats("run").queue.capacity, 1)

    def turn(self, seconds: float) -> Turn:
        """Take batches for some seconds, with a training step after each, and return what was measured."""
        return self._turn(seconds, self.step_seconds)

    def free_turn(self, seconds: float) -> Turn:
        """Take batches for some seconds as fast as possible, and return what was measured."""
        return self._turn(seconds, 0.0)

    def _turn(self, seconds: float, step_seconds: float) -> Turn:
        self.take_batches(self.num_ahead + 1)
        # In a long run, a loader that is fast enough has a batch ready when the step starts.
        time.sleep(step_seconds)
        before = self.loader.stats("run")
        turn = take_turn(
            self._take,
            seconds=seconds,
            work=(lambda _: time.sleep(step_seconds)) if step_seconds else None,
            finish=lambda: synchronise(self.loader.device),
        )
        if step_seconds == self.step_seconds:
            self.record.append((turn, self.loader.stats("run") - before))
        self._rest(turn)
        return turn

    def take_batches(self, count: int) -> None:
        """Take some batches without measuring."""
        for _ in range(count):
            self._take()

    def _rest(self, turn: Turn) -> None:
        """Wait until the loader has filled its queue."""
        time.sleep(min(_REST_SECONDS_MAX, self.num_ahead * self._size / max(turn.rate, 1e-6)))

    def close(self) -> None:
        """End the loader."""
        self._batches = chain()
        self.loader.close()

    def _take(self) -> Batch:
        batch = next(self._batches)
        self._size = max(self._size, len(batch))
        return batch


class Reading:
    """Reads encoded samples in random order with some threads, and drops them.

    Args:
        dataset: The data.
        request: Count of samples per read, like a loader's batch.
        in_flight: Count of reads in progress at once.
        seed: Seed of the random indices.
    """

    def __init__(self, dataset: Dataset, *, request: int, in_flight: int, seed: int = 0) -> None:
        self._dataset, self._in_flight = dataset, in_flight
        self._request = min(request, len(dataset))
        self._rng = np.random.default_rng(seed)
        self._num_samples = self._num_bytes = 0

    @property
    def bytes_per_sample(self) -> float:
        """Mean size of the samples that were read; 0 before the first turn."""
        return self._num_bytes / max(self._num_samples, 1)

    def turn(self, seconds: float) -> Turn:
        """Read for some seconds, and return what was measured."""
        requests = (
            self._rng.integers(len(self._dataset), size=self._request) for _ in itertools.count()
        )
        with closing(
            results_ahead(self._read, requests, self._in_flight, self._in_flight)
        ) as sizes:
            return take_turn(
                partial(next, sizes),
                seconds=seconds,
                discard=self._in_flight,
                count=lambda _: self._request,
                work=self._count,
            )

    def _read(self, rows: Any) -> int:
        """Read the samples with indices int64 [n], and return the count of their bytes; a bad sample counts 0."""
        samples = [one for one in self._dataset.fetch(rows) if isinstance(one, Sample)]
        payloads = [payload for sample in samples for payload in sample.fields.values()]
        for payload in payloads:  # touch every page, because views of mapped files are read lazily
            np.frombuffer(payload, np.uint8)[::_PAGE_BYTES].sum()
        return sum(map(len, payloads))

    def _count(self, num_bytes: int) -> None:
        self._num_bytes += num_bytes
        self._num_samples += self._request
