"""A lane: the samples that one reader of a stream gives, in order; it can be joined at any place."""

import zlib
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from dali_pipes.errors import LoaderError
from dali_pipes.steps.streams.shuffle import shards_of, shuffled, slot_numbers
from readers import BadSample, Sample
from readers.stream import Stream

SHARD_BITS = 32
"""The index of a sample is its number in the shard, plus the number of the shard times 2**32."""


class Mark(NamedTuple):
    """Where reading has to begin so that a lane can go on at a place. Content and order do not depend on it.

    Attributes:
        turn: How often the lane's shards were gone through before.
        start: The place in the lane at which that turn began.
        shard: The first shard that is needed: its number among those of the lane in this turn.
        first: The number, within the turn, of that shard's first sample.
        check: CRC-32 of the key of the last sample that was given before the place.
    """

    turn: int
    start: int
    shard: int
    first: int
    check: int


class Given(NamedTuple):
    """A sample that a lane gives, and in which turn."""

    sample: Sample | BadSample
    turn: int


class _Entry(NamedTuple):
    """A sample on its way through the buffer; None for one of which it is only known that it was there."""

    shard: int
    first: int
    sample: Sample | BadSample | None


_PASSED = _Entry(-1, 0, None)
_TURN_OVER = _Entry(-2, 0, None)
"""Stands behind the last entry of a turn, if another one follows."""
NUM_NEAR = 16
"""Samples before and behind a place that substitutes are drawn from: as many as are tried elsewhere."""


@dataclass(frozen=True, slots=True)
class LaneSpec:
    """What decides which samples a lane gives, and in which order.

    Attributes:
        stream: The shards.
        seed: Of the shuffle.
        epoch: The epoch.
        lane: Which lane this is.
        num_lanes: How many divide the shards.
        window: Samples in the shuffle buffer; None leaves shards and samples in their order.
        repeats: Whether the shards are begun again when they are through.
        num_near: How many samples before and behind a place `Lane.near` gives; they are held in memory.
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
    """Gives the samples of a lane one after the other.

    Args:
        spec: Which lane.
        place: Where it begins.
        mark: From where it can read; None reads from the beginning of the epoch.

    Raises:
        LoaderError: The stream gives other samples than before the mark.
    """

    def __init__(self, spec: LaneSpec, place: int = 0, mark: Mark | None = None) -> None:
        self._spec = spec
        if mark is not None and mark.start > place:
            mark = None
        self._turn, self._start = (mark.turn, mark.start) if mark else (0, 0)
        self._buffer: list[_Entry] = []
        self._behind: deque[_Entry] = deque(maxlen=spec.num_near)  # given last in this turn
        self._ahead: deque[_Entry] = deque()  # read, and given next
        self._newest = _Entry(mark.shard, mark.first, None) if mark else _Entry(0, 0, None)
        self._check = 0
        self.place = self._start
        self._entries = self._all(mark)
        self._go_to(place, mark)

    def read(self, count: int) -> list[Given]:
        """Return the next samples, fewer at the end of the lane."""
        given: list[Given] = []
        while len(given) < count and (entry := self._next()) is not None:
            self.place += 1
            if entry.sample is None:
                raise LoaderError(
                    "the state's mark of a stream does not fit its samples: the state was changed, or the stream; leave "
                    "the entry 'stream' out of the state to read from the beginning of the epoch"
                )
            given.append(Given(entry.sample, self._turn))
        if given:
            self._check = _check(given[-1].sample)
        return given

    def near(self) -> list[Given]:
        """Return the samples around the present place, of the same turn: the same after a resume at its mark."""
        ahead = self._ahead
        while len(ahead) < self._spec.num_near and not (ahead and ahead[-1] is _TURN_OVER):
            entry = next(self._entries, None)
            if entry is None:
                break
            ahead.append(entry)
        near = (*self._behind, *ahead)
        return [Given(entry.sample, self._turn) for entry in near if entry.sample is not None]

    def mark(self) -> Mark:
        """From where the lane can be read again to go on at the present place."""
        held = (*self._behind, *self._ahead, *self._buffer)
        oldest = min(
            (entry for entry in held if entry is not _TURN_OVER),
            key=lambda entry: entry.shard,
            default=self._newest,
        )
        return Mark(self._turn, self._start, max(oldest.shard, 0), oldest.first, self._check)

    def close(self) -> None:
        """Close what is open."""
        with suppress(
            ValueError
        ):  # a thread is still in it, of a loop that nobody waits for: it ends with the thread
            self._entries.close()
        self._buffer.clear()

    def _next(self) -> _Entry | None:
        """Take the next entry, which may be the first of another turn; None at the end of the lane."""
        entry = self._ahead.popleft() if self._ahead else next(self._entries, None)
        if entry is _TURN_OVER:
            self._turn, self._start = self._turn + 1, self.place
            self._newest = _Entry(0, 0, None)
            self._behind.clear()  # a mark of the new turn does not reach back to them
            return self._next()
        if entry is not None and entry.sample is not None:
            self._behind.append(entry)
        return entry

    def _go_to(self, place: int, mark: Mark | None) -> None:
        last: _Entry | None = None
        while self.place < place:
            last = self._next()
            if last is None:
                break
            self.place += 1
        if last is None or last.sample is None:
            return
        self._check = _check(last.sample)
        if mark is not None and self._check != mark.check:
            raise LoaderError(
                f"the stream gives other samples than when the state was taken: sample {place - 1} of this reader is now "
                f"{last.sample.key}; its files have changed, or it shuffles with random numbers that cannot be repeated"
            )

    def _all(self, mark: Mark | None) -> Generator[_Entry]:
        """All entries from the beginning of the mark's turn on."""
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
                    f"reader {spec.lane} of {spec.num_lanes} finds no sample in its shards; see that each has some"
                )
            mark = None
            yield _TURN_OVER

    def _turn_of(self, mark: Mark | None) -> Iterator[_Entry]:
        """The entries of a turn as they are stored."""
        spec = self._spec
        key = None if spec.window is None else (spec.seed, spec.epoch, self._turn)
        own = spec.stream.divides_itself
        shards = [0] if own else shards_of(spec.stream.num_shards, spec.lane, spec.num_lanes, key)
        begin, number = 0, 0
        if mark is not None:
            for _ in range(mark.first):
                yield _PASSED
            begin, number = mark.shard, mark.first
        for place in range(begin, len(shards)):
            first = number
            self._newest = _Entry(place, first, None)
            base = (spec.lane if own else shards[place]) << SHARD_BITS
            turn = spec.epoch + self._turn * (1 << 20)
            for sample in spec.stream.read_shard(shards[place], turn):
                yield _Entry(place, first, replace(sample, index=base + sample.index))
                number += 1


def _check(sample: Sample | BadSample) -> int:
    return zlib.crc32(sample.key.encode("utf-8", "surrogateescape"))
