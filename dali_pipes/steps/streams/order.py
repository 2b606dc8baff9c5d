"""The order of a stream: shards in a random order, then a shuffle buffer. Both are functions of numbers alone."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dali_pipes.errors import LoaderError
from readers.datasets.stream import Stream
from readers.order.permutation import make_keys, permute
from readers.order.shuffle import Shuffle

UNKNOWN = 1 << 62
"""Length of an epoch that ends where the stream ends: more samples than any stream gives, and sums still fit int64."""
SHARD_BITS = 32
"""The index of a sample is its number in the shard, plus the number of the shard times 2**32."""
DEFAULT_WINDOW = 4096
"""Samples in the shuffle buffer: as many as shuffle="block" has in open blocks."""

# Purposes of keys: every purpose has a number of its own, so that their draws are independent.
_SHARDS, _SLOTS = 11, 12
# Random numbers that are drawn at a time, so that a call of NumPy's costs nothing per sample.
_CHUNK = 4096

Entry = TypeVar("Entry")


@dataclass(frozen=True)
class StreamOrder:
    """The order of a stream's samples, of which only the order of the shards is known beforehand.

    Attributes:
        stream: The stream.
        seed: Seed of the shuffle.
        window: Samples in the shuffle buffer; None reads shards and samples in their stored order.
    """

    stream: Stream
    seed: int
    window: int | None

    def __len__(self) -> int:
        return self.stream.samples_per_epoch or UNKNOWN

    @property
    def span(self) -> int:
        """Upper bound (exclusive) of the samples' indices."""
        return self.stream.num_shards << SHARD_BITS

    @property
    def name(self) -> str:
        """The shuffle with its numbers, for states."""
        if self.window is None:
            return "none, read forward"
        return f"block, read forward(shuffle_window={self.window})"

    def places(
        self, epoch: int, positions: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the shards of an epoch, repeated cyclically: a check for states, not a way to look up samples."""
        key = None if self.window is None else (self.seed, epoch, 0)
        shards = np.array(shards_of(self.stream.num_shards, 0, 1, key), np.int64)
        found = shards[positions % len(shards)]
        return found, np.zeros_like(found)


def stream_order(
    stream: Stream, seed: int, shuffle: Shuffle, shuffle_window: int | None
) -> StreamOrder:
    """Return the order of a stream.

    Raises:
        LoaderError: It would need random access.
    """
    if shuffle == "global":
        raise LoaderError(
            f'shuffle="global" needs random access, which {type(stream).__name__} does not have: give shuffle="block", '
            'which reads the shards in another order in each epoch and shuffles within a buffer, or "none"'
        )
    window = None if shuffle == "none" else shuffle_window or DEFAULT_WINDOW
    return StreamOrder(stream, seed, window)


def shards_of(
    num_shards: int, lane: int, num_lanes: int, key: tuple[int, int, int] | None
) -> list[int]:
    """Return the shards of one of several lanes, in the order in which they are read.

    Args:
        num_shards: Number of shards.
        lane: Takes every `num_lanes`-th shard of the order, from this one on.
        num_lanes: Number of lanes.
        key: Seed, epoch and turn of the permutation; None keeps the stored order. A lane has the same shards in every
            turn of an epoch.
    """
    own = np.arange(num_shards, dtype=np.int64)
    if key is not None:
        seed, epoch, turn = key
        own = permute(own, num_shards, make_keys(seed, epoch, _SHARDS, 0))
    own = own[lane::num_lanes]
    if key is not None and turn:
        again = np.arange(len(own), dtype=np.int64)
        own = own[permute(again, len(own), make_keys(seed, epoch, _SHARDS, turn, lane))]
    return own.tolist()


def shuffled(
    entries: Iterable[Entry], window: int, numbers: Iterator[int], buffer: list[Entry]
) -> Iterator[Entry]:
    """Shuffle through a buffer: once it is full, a random one of its entries is yielded for each new one.

    At the end the remaining entries are yielded, each drawn at random.

    Args:
        entries: The input.
        window: Number of entries that the buffer holds; 0 shuffles nothing.
        numbers: Random numbers >= 0, one for each entry that is yielded.
        buffer: Empty at first; the caller can see in it which entries wait.
    """
    if window == 0:
        yield from entries
        return
    for entry in entries:
        if len(buffer) < window:
            buffer.append(entry)
            continue
        slot = next(numbers) % window
        given, buffer[slot] = buffer[slot], entry
        yield given
    while buffer:
        slot = next(numbers) % len(buffer)
        buffer[slot], buffer[-1] = buffer[-1], buffer[slot]
        yield buffer.pop()


def slot_numbers(seed: int, epoch: int, turn: int, lane: int) -> Iterator[int]:
    """Yield the random numbers of 64 bits that choose a buffer's entries, in one turn of one lane."""
    keys = make_keys(seed, epoch, _SLOTS, turn, lane)
    bits = np.random.Philox(key=keys[:2])
    while True:
        yield from bits.random_raw(_CHUNK).tolist()
