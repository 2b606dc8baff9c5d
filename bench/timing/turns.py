"""Measure contestants alternately, each for some seconds (a turn) in every round, so noise affects all."""

import gc
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from bench.timing.usage import cpu_seconds

if TYPE_CHECKING:  # processes of other libraries take turns, too, and must not need torch
    import torch


def clock() -> float:
    """Return the seconds of a clock that stops while our own functions are compiled.

    A process that has not loaded the compiling module has nothing to exclude.
    """
    read = getattr(sys.modules.get("gpu_aug.compiled.clock"), "clock", time.perf_counter)
    return float(read())


@dataclass(frozen=True, slots=True)
class Turn:
    """What a contestant did in one turn, a timed interval. Time for compiling our own functions is excluded.

    Attributes:
        items: Count of images, clips, samples or calls.
        seconds: Length of the turn in seconds, to the end of the last batch.
        cpu_seconds: CPU time of the contestant's processes during the turn; NaN if unknown.
        wait_seconds: The part of `seconds` in which the consumer waited for a batch.
        num_bytes: Count of bytes that were read; 0 if not counted.
        peak_bytes: Largest memory of the contestant's processes since their start; 0 if not measured.
    """

    items: int
    seconds: float
    cpu_seconds: float = float("nan")
    wait_seconds: float = 0.0
    num_bytes: int = 0
    peak_bytes: int = 0

    @property
    def rate(self) -> float:
        """Items per second."""
        return self.items / max(self.seconds, 1e-9)


@dataclass(frozen=True, slots=True)
class Measurement:
    """The measurements of one contestant: its turns (timed intervals), one per round, in order."""

    turns: tuple[Turn, ...]

    @property
    def rates(self) -> tuple[float, ...]:
        """Items per second of each turn."""
        return tuple(turn.rate for turn in self.turns)

    @property
    def median(self) -> float:
        """Median of the rates."""
        return median(self.rates)

    @property
    def seconds_per_item(self) -> float:
        """Median over turns of the seconds per item."""
        return 1 / self.median

    @property
    def cpu_seconds_per_item(self) -> float:
        """CPU time of the processes per item, over all turns."""
        items = sum(turn.items for turn in self.turns)
        return sum(turn.cpu_seconds for turn in self.turns) / max(items, 1)

    @property
    def wait_share(self) -> float:
        """Share of the time that the consumer waited, 0 to 1."""
        seconds = sum(turn.seconds for turn in self.turns)
        return sum(turn.wait_seconds for turn in self.turns) / max(seconds, 1e-9)

    @property
    def peak_bytes(self) -> int:
        """Largest memory of the processes in bytes, over all turns; 0 if not measured."""
        return max(turn.peak_bytes for turn in self.turns)

    def to_dict(self, scale: float = 1.0, digits: int = 1) -> dict[str, object]:
        """Return as values for JSON the median, min, max and runs of the rates, and the CPU milliseconds per item.

        Args:
            scale: Factor on the rates, for example the frames of a clip.
            digits: Decimal places of the rates.
        """
        rates = [round(rate * scale, digits) for rate in self.rates]
        cpu = self.cpu_seconds_per_item
        return {
            "median": round(self.median * scale, digits),
            "min": min(rates),
            "max": max(rates),
            "runs": rates,
            # NaN is not valid JSON.
            "cpu_ms_per_item": round(1e3 * cpu, 4) if cpu == cpu else None,
        }


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as fast one contestant is as another, for each round in which both were measured."""

    runs: tuple[float, ...]

    @property
    def median(self) -> float:
        """Median over the rounds."""
        return median(self.runs)

    def to_dict(self) -> dict[str, object]:
        """Return the median and the ratio of each round as values for JSON."""
        return {"median": round(self.median, 3), "runs": [round(run, 3) for run in self.runs]}


def ratio(one: Measurement, other: Measurement) -> Ratio:
    """Return how many times as fast one contestant is as another, in each round.

    The turns of a round are seconds apart, so a slow minute of the machine cancels out.
    """
    pairs = zip(one.rates, other.rates, strict=True)
    return Ratio(tuple(mine / max(theirs, 1e-9) for mine, theirs in pairs))


def take_turn(
    call: Callable[[], Any],
    *,
    seconds: float,
    discard: int = 0,
    items_max: int | None = None,
    count: Callable[[Any], int] = len,
    work: Callable[[Any], object] | None = None,
    finish: Callable[[], None] = lambda: None,
) -> Turn:
    """Call a function repeatedly for some time, at least once, and return what was measured.

    Args:
        call: The function, which makes one batch.
        seconds: Length of the turn in seconds; it ends with the first batch after this time.
        discard: Count of calls before the clock starts: as many as the batches that were prepared before the turn.
        items_max: The turn ends earlier after this many items.
        count: A function that returns the count of items of a batch.
        work: The consumer's work on each batch, such as a training step; it does not count as waiting.
        finish: A function that waits until everything that was handed over is computed, such as `synchronise` of a
            device.
    """
    for _ in range(discard):
        call()
    finish()
    items, waited, elapsed = 0, 0.0, 0.0
    cpu, began = cpu_seconds(), clock()
    while not items or (elapsed < seconds and (items_max is None or items < items_max)):
        asked = clock()
        batch = call()
        waited += clock() - asked
        items += count(batch)
        if work is not None:
            work(batch)
        elapsed = clock() - began
    finish()
    return Turn(items, clock() - began, cpu_seconds() - cpu, waited)


def measure_in_turns(
    contestants: Mapping[str, Callable[[float], Turn]],
    *,
    seconds: float,
    rounds: int,
    warm_up: float = 0.0,
    order_seed: int | None = None,
    progress: Callable[[str], object] = lambda _: None,
    after_turn: Callable[[str, Turn], object] = lambda _name, _turn: None,
    on_failure: Callable[[str, Exception], object] | None = None,
) -> dict[str, Measurement]:
    """Measure contestants alternately: each works for some seconds (a turn) in every round.

    The order is rotated by one in each round, or random, so that no contestant always follows the same one.

    Args:
        contestants: For each name, a function that works for the given seconds and returns its turn (see `take_turn`).
        seconds: Length of one turn in seconds.
        rounds: Count of rounds, which is the count of turns of each contestant.
        warm_up: Length in seconds of an uncounted turn of each contestant before the first round; 0 leaves it out.
        order_seed: Seed of the random order of the contestants in each round; None rotates the order.
        progress: Called with a line of text before every turn of a contestant.
        after_turn: Called after every turn, for example to wait until the contestant's queue is full again.
        on_failure: Called with the name and the error of a contestant that raised; it takes no further turns and has no
            result. With None the error is raised.

    Returns:
        The turns by name, in the order of `contestants`.
    """
    turns: dict[str, list[Turn]] = {name: [] for name in contestants}
    with _few_collections():
        for number in range(-1 if warm_up else 0, rounds):
            is_warm_up = number < 0
            title = "warming up" if is_warm_up else f"round {number + 1} of {rounds}"
            names = list(turns)
            first = max(number, 0) % max(len(names), 1)
            names = [*names[first:], *names[:first]]
            if order_seed is not None:
                random.Random(f"{order_seed} {number}").shuffle(names)
            for name in names:
                progress(f"{title}: {name}")
                try:
                    turn = contestants[name](warm_up if is_warm_up else seconds)
                except Exception as error:
                    if on_failure is None:
                        raise
                    del turns[name]
                    on_failure(name, error)
                    continue
                if not is_warm_up:
                    turns[name].append(turn)
                after_turn(name, turn)
    return {name: Measurement(tuple(own)) for name, own in turns.items()}


def synchronise(device: "torch.device") -> None:
    """Wait until the device has finished all work."""
    if device.type == "cuda":
        import torch

        torch.cuda.synchronize(device)


@contextmanager
def _few_collections() -> Iterator[None]:
    """Exempt all present objects from garbage collection, which would lengthen the turn of the contestant that triggers it."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit torch and OpenCV to one thread inside the block."""
    import torch

    cv2 = sys.modules.get("cv2")
    threads = torch.get_num_threads(), cv2.getNumThreads() if cv2 else 0
    torch.set_num_threads(1)
    if cv2:
        cv2.setNumThreads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads[0])
        if cv2:
            cv2.setNumThreads(threads[1])
