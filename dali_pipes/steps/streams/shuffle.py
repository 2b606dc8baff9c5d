"""The shuffle of a stream: shards in an order of their own, and a buffer of samples. Both are functions of numbers."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np

from readers.permutation import make_keys, permute

_SHARDS, _SLOTS = 11, 12  # what keys are for
_CHUNK = 4096
DEFAULT_WINDOW = 4096
"""Samples in the buffer, as shuffle="block" has them in open blocks."""

Entry = TypeVar("Entry")


def shards_of(
    num_shards: int, lane: int, num_lanes: int, key: tuple[int, int, int] | None
) -> list[int]:
    """Return the shards of one of several lanes, in the order in which they are read.

    Args:
        num_shards: Number of shards.
        lane: Takes every `num_lanes`-th shard of the order, from this one on.
        num_lanes: Number of lanes.
        key: Seed, epoch and turn, for which the shards are permuted; None leaves them in their order. A lane has
            the same shards in every turn of an epoch.
    """
    numbers = np.arange(num_shards, dtype=np.int64)
    if key is None:
        return numbers[lane::num_lanes].tolist()  # type: ignore[no-any-return]
    seed, epoch, turn = key
    own = permute(numbers, num_shards, make_keys(seed, epoch, _SHARDS, 0))[lane::num_lanes]
    if turn:
        again = np.arange(len(own), dtype=np.int64)
        own = own[permute(again, len(own), make_keys(seed, epoch, _SHARDS, turn, lane))]
    return own.tolist()  # type: ignore[no-any-return]


def shuffled(
    entries: Iterable[Entry], window: int, numbers: Iterator[int], buffer: list[Entry]
) -> Iterator[Entry]:
    """Shuffle through a buffer: it is filled, then gives one of its entries, at random, for each that comes in.

    At the end it gives the others, each drawn from those that are left.

    Args:
        entries: What comes in.
        window: How many entries the buffer holds; with 0 nothing is shuffled.
        numbers: Random numbers >= 0, one for each entry that is given.
        buffer: Empty; holds the entries meanwhile, for whoever wants to look at them.
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
    """Random numbers of 64 bits by which a buffer chooses, those of one turn of one lane."""
    keys = make_keys(seed, epoch, _SLOTS, turn, lane)
    bits = np.random.Philox(key=keys[:2])
    while True:
        yield from bits.random_raw(_CHUNK).tolist()
