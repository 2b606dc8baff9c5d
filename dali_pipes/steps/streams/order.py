"""The order of a stream: shards in a random order, then a shuffle buffer.

Both depend only on seed, epoch, lane (one reader's share of the stream) and turn (one pass of a reader over its shards).
"""

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
"""Stands for the unknown length of an epoch that ends with the stream: more samples than any stream has, and small
enough for sums in int64."""
SHARD_BITS = 32
"""The index of a sample in the dataset is its index in the shard, plus the index of the shard times 2**32."""
DEFAULT_WINDOW = 4096
"""Samples in the shuffle buffer: as many as shuffle="block" keeps in open blocks."""

# Purposes of random keys: each has its own number, so that their draws are independent.
_SHARDS, _SLOTS = 11, 12
# Random numbers drawn at a time, which makes the cost of a NumPy call per sample negligible.
_CHUNK = 4096

Entry = TypeVar("Entry")


@dataclass(frozen=True)
class StreamOrder:
    """The order of a stream's samples; only the order of the shards is known before reading.

    Attributes:
        stream: The stream.
        seed: Seed of the shuffle.
        window: Size of the shuffle buffer in samples; None keeps the stored order of shards and samples.
    """

    stream: Stream
    seed: int
    window: int | None

    def __len__(self) -> int:
        return self.stream.samples_per_epoch or UNKNOWN

    @property
    def name(self) -> str:
        """Name of the shuffle with its parameters, by which a state identifies the order."""
        if self.window is None:
            return "none, read forward"
        return f"block, read forward(shuffle_window={self.window})"

    def places(
        self, epoch: int, positions: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return for each position a shard of the epoch's order, cyclically, by which states are compared.

        The result does not tell in which shard a sample is: that is only known after reading.
        """
        key = None if self.window is None else (self.seed, epoch, 0)
        shards = np.array(shards_of(self.stream.num_shards, 0, 1, key), np.int64)
        found = shards[positions % len(shards)]
        return found, np.zeros_like(found)


def stream_order(
    stream: Stream, seed: int, shuffle: Shuffle, shuffle_window: int | None
) -> StreamOrder:
    """Return the order of a stream.

    Raises:
        LoaderError: `shuffle` needs random access, which a stream does not have.
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
    """Return the shards of one lane in reading order.

    Args:
        num_shards: Count of shards of the stream.
        lane: Index of the lane, which takes every `num_lanes`-th shard of the order, from number `lane` on.
        num_lanes: Count of lanes.
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
    """Shuffle entries through a buffer: once the buffer is full, each new entry replaces a random one, which is yielded.

    At the end, the remaining entries are yielded in random order.

    Args:
        entries: The input.
        window: Number of entries in the buffer; 0 does not shuffle.
        numbers: Random numbers >= 0, one for each yielded entry.
        buffer: An empty list, which this function uses as its buffer, so that the caller sees which entries wait.
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
    """Yield 64-bit random numbers that choose the entries of a shuffle buffer, for one turn of one lane."""
    keys = make_keys(seed, epoch, _SLOTS, turn, lane)
    bits = np.random.Philox(key=keys[:2])
    while True:
        yield from bits.random_raw(_CHUNK).tolist()
