"""A lane: the samples that one reader of a stream yields, in order; reading can start at any position.

If an epoch is longer than the stream, a reader reads its shards several times. Each pass over them is a turn.
"""

import zlib
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from dali_pipes.errors import LoaderError
from dali_pipes.steps.streams.order import SHARD_BITS, shards_of, shuffled, slot_numbers
from readers import BadSample, Sample
from readers.datasets.stream import Stream


class Mark(NamedTuple):
    """The shard from which a lane must be read again to resume at a position; a state stores it.

    A mark only saves reading: without it, a lane yields the same samples after reading the epoch from the start.

    Attributes:
        turn: Index of the turn (pass over the lane's shards) to which the position belongs.
        start: Position in the lane at which that turn began.
        shard: Index of the first needed shard among the lane's shards of this turn.
        first: Index within the turn of that shard's first sample.
        check: CRC-32 of the key of the last sample before the position, to detect that the stream has changed.
    """

    turn: int
    start: int
    shard: int
    first: int
    check: int


# The start of an epoch, before any sample was read.
_START = Mark(0, 0, 0, 0, 0)


class Given(NamedTuple):
    """A sample of a lane, and the index of the turn (pass over the shards) in which it was read."""

    sample: Sample | BadSample
    turn: int


class _Entry(NamedTuple):
    """A sample in the shuffle buffer; `sample` is None if it lies before the mark and so is not read again."""

    shard: int
    first: int
    sample: Sample | BadSample | None


_PASSED = _Entry(-1, 0, None)
# Follows the last entry of a turn if there is another turn.
_TURN_OVER = _Entry(-2, 0, None)
NUM_NEAR = 16
"""Samples before and after a position from which substitutes are drawn: as many as are tried for indexed datasets."""


@dataclass(frozen=True, slots=True)
class LaneSpec:
    """Everything that determines the samples of a lane and their order.

    Attributes:
        stream: The shards.
        seed: Seed of the shuffle.
        epoch: The epoch.
        lane: Index of this lane.
        num_lanes: Count of lanes among which the shards are divided.
        window: Size of the shuffle buffer in samples; None keeps the stored order of shards and samples.
        repeats: Whether the shards are read again after the last one.
        num_near: Count of samples before, and of samples after, a position that `Lane.near` returns; the lane keeps
            them in memory.
    """

    stream: Stream
    seed: int
    epoch: int
    lane: int
    num_lanes: int
    window: int | None
    repeats: bool
    num_near: int = 0


class Lane:
    """Reads the samples of a lane in order.

    Args:
        spec: The lane.
        place: Position at which reading starts.
        mark: A mark for that position; None reads from the start of the epoch.

    Raises:
        LoaderError: The stream has other samples than when the mark was made.
    """

    def __init__(self, spec: LaneSpec, place: int = 0, mark: Mark | None = None) -> None:
        self._spec = spec
        if mark is None or mark.start > place:
            mark = _START
        self._turn, self._start = mark.turn, mark.start
        self._buffer: list[_Entry] = []
        # The latest samples that were returned in this turn.
        self._behind: deque[_Entry] = deque(maxlen=spec.num_near)
        self._ahead: deque[_Entry] = deque()  # samples that were read and are returned next
        self._newest = _Entry(mark.shard, mark.first, None)
        self._check = 0
        self.place = self._start
        self._entries = self._all(mark)
        self._go_to(place, mark)

    def read(self, count: int) -> list[Given]:
        """Return the next `count` samples, or fewer at the end of the lane."""
        given: list[Given] = []
        while len(given) < count and (entry := self._next()) is not None:
            self.place += 1
            if entry.sample is None:
                raise LoaderError(
                    "the state's mark of a stream does not fit its samples: the state was changed, or the stream; load a "
                    "copy of the state without the entry 'stream' to read from the beginning of the epoch"
                )
            given.append(Given(entry.sample, self._turn))
        if given:
            self._check = _check(given[-1].sample)
        return given

    def near(self) -> list[Given]:
        """Return the samples just before and after the present position, all of the same turn.

        After a resume from this position's mark, the result has the same samples.
        """
        ahead = self._ahead
        while len(ahead) < self._spec.num_near and not (ahead and ahead[-1] is _TURN_OVER):
            entry = next(self._entries, None)
            if entry is None:
                break
            ahead.append(entry)
        near = (*self._behind, *ahead)
        return [Given(entry.sample, self._turn) for entry in near if entry.sample is not None]

    def mark(self) -> Mark:
        """Return a mark from which reading resumes at the present position."""
        held = (*self._behind, *self._ahead, *self._buffer)
        oldest = min(
            (entry for entry in held if entry is not _TURN_OVER),
            key=lambda entry: entry.shard,
            default=self._newest,
        )
        return Mark(self._turn, self._start, max(oldest.shard, 0), oldest.first, self._check)

    def close(self) -> None:
        """Close the open shard."""
        # A thread of an abandoned loop may still run the generator; then it ends with the thread.
        with suppress(ValueError):
            self._entries.close()
        self._buffer.clear()

    def _next(self) -> _Entry | None:
        """Return the next entry, which may begin another pass over the lane's shards; None at the end of the lane."""
        entry = self._ahead.popleft() if self._ahead else next(self._entries, None)
        if entry is _TURN_OVER:
            self._turn, self._start = self._turn + 1, self.place
            self._newest = _Entry(0, 0, None)
            self._behind.clear()  # marks of the new turn start after these samples
            return self._next()
        if entry is not None and entry.sample is not None:
            self._behind.append(entry)
        return entry

    def _go_to(self, place: int, mark: Mark) -> None:
        last: _Entry | None = None
        while self.place < place:
            last = self._next()
            if last is None:
                break
            self.place += 1
        if last is None or last.sample is None:
            return
        self._check = _check(last.sample)
        if mark is not _START and self._check != mark.check:
            raise LoaderError(
                f"the stream has other samples than when the state was taken: sample {place - 1} of this reader is now "
                f"{last.sample.key}; its files have changed, or it shuffles with random numbers that cannot be repeated"
            )

    def _all(self, mark: Mark) -> Generator[_Entry]:
        """Yield all entries in shuffled order, from the start of the turn to which the mark belongs."""
        spec = self._spec
        while True:
            given = 0
            numbers = slot_numbers(spec.seed, spec.epoch, self._turn, spec.lane)
            for entry in shuffled(self._turn_of(mark), spec.window or 0, numbers, self._buffer):
                given += 1
                yield entry
            if not spec.repeats:
                return
            if not given:
                raise LoaderError(
                    f"reader {spec.lane} of {spec.num_lanes} finds no sample in its shards; pack more samples into each "
                    "shard, or use fewer ranks"
                )
            mark = _START
            yield _TURN_OVER

    def _turn_of(self, mark: Mark) -> Iterator[_Entry]:
        """Yield the entries of one turn before the shuffle buffer: shards in the turn's order, samples as stored."""
        spec = self._spec
        key = None if spec.window is None else (spec.seed, spec.epoch, self._turn)
        own = spec.stream.divides_itself
        shards = [0] if own else shards_of(spec.stream.num_shards, spec.lane, spec.num_lanes, key)
        for _ in range(mark.first):
            yield _PASSED
        number = mark.first
        for place in range(mark.shard, len(shards)):
            first = number
            self._newest = _Entry(place, first, None)
            base = (spec.lane if own else shards[place]) << SHARD_BITS
            # A stream that shuffles by itself gets a different epoch number for each turn; no run has 2**20 epochs.
            turn = spec.epoch + self._turn * (1 << 20)
            for sample in spec.stream.read_shard(shards[place], turn):
                yield _Entry(place, first, replace(sample, index=base + sample.index))
                number += 1


def _check(sample: Sample | BadSample) -> int:
    return zlib.crc32(sample.key.encode("utf-8", "surrogateescape"))
