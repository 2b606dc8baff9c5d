"""Measuring what storage gives: cold and warm, for several numbers of fetches in flight, in turns."""

import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.compare.timer import Rate, rotated
from bench.tune.facts import Facts, rows_of
from bench.tune.storage import ReadRate, StorageCeiling, Temperature
from bench.tune.storage_big import read_big
from bench.tune.storage_cold import Chill, chill_of
from bench.tune.storage_read import Reading, read_for
from readers import Dataset

IN_FLIGHT = (1, 2, 4, 8, 16)

_MOST_ROUNDS = 5
_MOST_ROWS, _MOST_BYTES = 8192, 1 << 30  # of one turn
_LONGEST_FETCH = 0.1  # of all the time there is
_LADDER_SHARE = 0.6
_NUM_TURNS = 30  # that the time is meant for
_GAIN = 1.1
_SURPLUS_TOLD = 1.2
_LEAST_SPREAD = 0.2  # of sizes: less does not tell what a byte costs from what a request does

_ONE, _BATCH, _NEIGHBOURS = "one sample", "batch", "neighbours"
_Way = tuple[str, int]


def measure_storage(
    dataset: Dataset,
    facts: Facts,
    *,
    source: str | None,
    batch_size: int,
    seconds: float,
    on_progress: Callable[[float], None] = lambda _: None,
) -> StorageCeiling:
    """Fetch samples and do nothing with them, with 1, 2, 4, 8 and 16 fetches at a time.

    Numbers in flight that can no longer help are left out: those after two that gained less than a tenth.

    Args:
        dataset: The data.
        facts: What they are like.
        source: Their path, pattern or URL; without it nothing can be made cold.
        batch_size: Samples of a request; fewer where such a request would take longer than a tenth of the time, or
            where there are too few samples.
        seconds: Time for all of it; what has begun is finished.
        on_progress: Called with the share of the time that is over.
    """
    rows, chill = _rows_and_chill(dataset, facts, source)
    turns = _Turns(dataset, rows, chill, seconds, on_progress)
    turns.choose_request(batch_size)
    turns.climb()
    turns.go_on()
    big = read_big(chill, seconds / 8)
    return _ceiling(turns, *big, near=facts.stays_near)


class _Turns:
    """Turns of reading, each cold and then warm.

    Args:
        dataset: The data.
        rows: Which of its rows are read.
        chill: Makes them cold.
        seconds: Time for all turns.
        on_progress: See `measure_storage`.
    """

    def __init__(
        self,
        dataset: Dataset,
        rows: NDArray[np.int64],
        chill: Chill,
        seconds: float,
        on_progress: Callable[[float], None],
    ) -> None:
        self.chill, self.request = chill, 1
        self.cold: dict[_Way, list[Reading]] = defaultdict(list)
        self.warm: dict[_Way, list[Reading]] = defaultdict(list)
        self._dataset, self._rows = dataset, rows
        self._seconds, self._began = seconds, time.monotonic()
        self._on_progress = on_progress
        self._lasted: dict[_Way, float] = {}
        one_each = chill.one_file_each
        self._files = dict(zip(rows.tolist(), chill.files, strict=True)) if one_each else {}
        self._read: list[Path] | None = [] if one_each else None  # chill_of took them out

    @property
    def passed(self) -> float:
        """The share of the time that is over."""
        return (time.monotonic() - self._began) / self._seconds

    def choose_request(self, batch_size: int) -> None:
        """Read single samples, and choose how many are asked for at once."""
        self.take((_ONE, 1))
        one = median(seconds for _, seconds in self.cold[_ONE, 1][0].fetches)
        most = min(self._seconds * _LONGEST_FETCH / one, len(self._rows) / 4, batch_size)
        self.request = max(int(most), 1)

    def climb(self) -> None:
        """Read with more and more in flight, as long as that helps and there is time."""
        idle, best, factor = 0, 0.0, 1.0
        for in_flight in IN_FLIGHT:
            before = self._lasted.get((_BATCH, in_flight // 2), 0.0)
            too_long = self.passed + factor * before / self._seconds > _LADDER_SHARE
            if in_flight > 1 and (too_long or in_flight * self.request > len(self._rows)):
                break
            self.take((_BATCH, in_flight))
            rate = _rate(self.cold[_BATCH, in_flight][0])
            idle = 0 if rate >= _GAIN * best else idle + 1
            best, factor = max(best, rate), 2.0 if idle else 1.0
            if idle == 2:
                break
        if not self.chill.one_file_each:
            self.take((_NEIGHBOURS, max(way[1] for way in self.cold if way[0] == _BATCH)))

    def go_on(self) -> None:
        """Repeat all that was read, in turns, as long as there is time."""
        for number in range(1, _MOST_ROUNDS):
            for way in rotated(list(self._lasted), number):
                if self.passed + self._lasted[way] / self._seconds > 1:
                    return
                self.take(way)

    def take(self, way: _Way) -> None:
        """Read in one way: cold, and again what was read then."""
        began, (kind, in_flight) = time.monotonic(), way
        request = 1 if kind == _ONE else self.request
        how: dict[str, Any] = {"request": request, "in_flight": in_flight}
        turn = self._seconds / _NUM_TURNS
        with self.chill.fresh(self._read):
            cold = read_for(self._dataset, self._next(kind), seconds=turn, **how)
            again = np.array(cold.rows, np.int64)
            warm = read_for(self._dataset, again, seconds=turn / 2, **how)
        if self.chill.one_file_each:
            self._read = [self._files[row] for row in cold.rows]
        self.cold[way].append(cold)
        self.warm[way].append(warm)
        self._lasted[way] = time.monotonic() - began
        self._on_progress(min(self.passed, 1.0))

    def _next(self, kind: str) -> NDArray[np.int64]:
        """Rows in another order each time: neighbours from somewhere on, or the rows as they were drawn."""
        number = sum(map(len, self.cold.values()))
        if kind == _NEIGHBOURS:
            length = len(self._dataset)
            start = int(self._rows[number % len(self._rows)])
            return (start + np.arange(min(len(self._rows), length))) % length
        return np.roll(self._rows, -number * len(self._rows) // 7)


def _rate(reading: Reading) -> float:
    return reading.samples / max(reading.seconds, 1e-9)


def _rows_and_chill(
    dataset: Dataset, facts: Facts, source: str | None
) -> tuple[NDArray[np.int64], Chill]:
    count = min(_MOST_ROWS, max(int(_MOST_BYTES / facts.sample_bytes.mean), 16))
    rows = rows_of(len(dataset), count)
    some = [one.key for one in dataset.fetch(rows[:16])]
    chill = chill_of(facts.place, source, some, facts.total_bytes)
    keys = getattr(dataset, "keys", None)
    if chill.one_file_each and keys is not None:
        names = keys()
        chill = chill_of(facts.place, source, [names[row] for row in rows.tolist()])
    if chill.one_file_each:
        rows = rows[: len(chill.files)]
    return rows, chill


def _ceiling(turns: _Turns, big: float | None, note_big: str, *, near: bool) -> StorageCeiling:
    """Put the turns together; `near` says that a cache keeps all that an epoch reads."""
    temperatures: list[tuple[Temperature, dict[_Way, list[Reading]]]] = [("warm", turns.warm)]
    if turns.chill.possible:
        temperatures.insert(0, ("cold", turns.cold))
    rates, sequential = [], None
    for temperature, found in temperatures:
        for (kind, in_flight), runs in found.items():
            request = 1 if kind == _ONE else turns.request
            rate = _read_rate(temperature, request, in_flight, runs, near=near)
            if kind != _NEIGHBOURS:
                rates.append(rate)
            elif sequential is None:
                sequential = rate
    _, first = temperatures[0]
    latency, per_byte = _cost_of(first)
    surplus = max((run.surplus for runs in first.values() for run in runs), default=1.0)
    note = turns.chill.note
    if near and surplus > _SURPLUS_TOLD:
        note += (
            f"; a sample came with up to {surplus:.1f} times its bytes, in whole blocks that serve other samples later, so rates "
            "are those of a whole epoch"
        )
    return StorageCeiling(
        tuple(rates),
        note,
        latency,
        per_byte,
        turns.chill.one_file_each,
        sequential,
        big,
        note_big,
    )


def _read_rate(
    temperature: Temperature, request: int, in_flight: int, runs: list[Reading], *, near: bool
) -> ReadRate:
    """The rate of some turns. Where a cache keeps all blocks, each is fetched once in an epoch, for all of its samples."""
    samples = sum(run.samples for run in runs)
    rates = [_rate(run) * (run.surplus if near else 1.0) for run in runs]
    return ReadRate(
        temperature,
        request,
        in_flight,
        Rate(tuple(rates)),
        sum(run.num_bytes for run in runs) / samples,
        median(run.cpu_seconds / run.samples for run in runs),
    )


def _cost_of(found: dict[_Way, list[Reading]]) -> tuple[float, float]:
    """What a fetch of one sample costs, and what each of its bytes adds: a line through all fetches of one sample.

    Where all have about the same size, what a byte costs is taken from the fastest way of reading.
    """
    fetches = np.array([fetch for run in found[_ONE, 1] for fetch in run.fetches])
    sizes, seconds = fetches[:, 0], fetches[:, 1]
    if len(sizes) > 2 and sizes.std() >= _LEAST_SPREAD * sizes.mean():
        per_byte = float(np.polyfit(sizes, seconds, 1)[0])
    else:
        per_byte = min(run.seconds / run.num_bytes for runs in found.values() for run in runs)
    per_byte = max(per_byte, 0.0)
    return max(float(np.median(seconds - per_byte * sizes)), 0.0), per_byte
