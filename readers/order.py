"""Which sample stands at which position of which epoch: pure arithmetic, no I/O, no state."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

# 8 leave orders of 5 samples visibly uneven (chi-square over 12,000 epochs), 12 do not. A batch of
# 256 out of 1.3 million samples takes 0.4 ms.
_NUM_ROUNDS = 12
_MULTIPLIERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))  # SplitMix64's
_HALF = np.uint64(32)


@dataclass(frozen=True)
class Order:
    """The order of a dataset's samples, epoch by epoch.

    Every epoch holds every index once. The order depends on (seed, epoch, length) alone, so any
    rank can ask for any slice of any epoch, and a run can be taken up again anywhere.

    Attributes:
        length: Number of samples, >= 0.
        seed: Any integer >= 0.
        shuffle: "global" permutes the whole dataset anew in each epoch, "none" keeps its order.

    Source: Black and Rogaway 2002, "Ciphers with Arbitrary Finite Domains": a Feistel network
    with cycle walking. Here the halves may differ by one bit, and the rounds are a
    multiply-and-shift hash, since nobody has to be kept from guessing the order.
    """

    length: int
    seed: int = 0
    shuffle: Literal["global", "none"] = "global"

    def __post_init__(self) -> None:
        if self.length < 0 or self.seed < 0:
            raise ValueError(
                f"length and seed must be >= 0, got length={self.length}, seed={self.seed}"
            )
        if self.shuffle not in ("global", "none"):
            raise ValueError(f"shuffle must be 'global' or 'none', got {self.shuffle!r}")

    def indices(self, epoch: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the dataset index at each position of an epoch.

        Args:
            epoch: Number of the epoch, >= 0.
            positions: int64 [n], each 0 <= position < length. n decides time and memory.

        Returns:
            int64 [n], distinct where the positions are.

        Raises:
            IndexError: A position is outside the epoch.
        """
        positions = np.asarray(positions, dtype=np.int64)
        if positions.size == 0:
            return positions.copy()
        if positions.min() < 0 or positions.max() >= self.length:
            raise IndexError(
                f"positions must be in 0 <= position < {self.length}, "
                f"got {positions.min()} to {positions.max()}"
            )
        if self.shuffle == "none":
            return positions.copy()
        return self._permuted(epoch, positions.astype(np.uint64)).astype(np.int64)

    def _permuted(self, epoch: int, values: NDArray[np.uint64]) -> NDArray[np.uint64]:
        num_bits = max(2, (self.length - 1).bit_length())  # both halves need a bit
        keys = _round_keys(self.seed, epoch)
        values = _feistel(values, num_bits, keys)
        # Cycle walking: the network permutes 2**num_bits values, most often fewer than 2 * length.
        # Who lands outside walks on along its cycle, which returns to the inside at the latest
        # where it started.
        outside = np.flatnonzero(values >= self.length)
        while outside.size:
            values[outside] = _feistel(values[outside], num_bits, keys)
            outside = outside[values[outside] >= self.length]
        return values


def part(start: int, stop: int, rank: int, world_size: int) -> tuple[int, int]:
    """Return one rank's share, half open, of the positions start <= position < stop.

    The shares of all ranks are contiguous, cover the slice once, and differ in size by at most 1.

    Raises:
        ValueError: The rank is not in 0 <= rank < world_size, or stop < start.
    """
    if not 0 <= rank < world_size:
        raise ValueError(f"rank must be in 0 <= rank < world_size, got {rank=}, {world_size=}")
    if stop < start:
        raise ValueError(f"stop must not be before start, got {start=}, {stop=}")
    size = stop - start
    return start + size * rank // world_size, start + size * (rank + 1) // world_size


@lru_cache(maxsize=16)
def _round_keys(seed: int, epoch: int) -> NDArray[np.uint64]:
    # seed and epoch enter as two numbers: a sum would give (0, 1) and (1, 0) the same order.
    sequence = np.random.SeedSequence(seed, spawn_key=(epoch,))
    return sequence.generate_state(_NUM_ROUNDS, np.uint64).astype(np.uint64)


def _feistel(
    values: NDArray[np.uint64], num_bits: int, keys: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """Permute the numbers below 2**num_bits: halves take turns at hashing into one another."""
    num_low_bits = (num_bits + 1) // 2
    low_shift, high_shift = np.uint64(64 - num_low_bits), np.uint64(64 - num_bits // 2)
    low = values & np.uint64((1 << num_low_bits) - 1)
    high = values >> np.uint64(num_low_bits)
    for number, key in enumerate(keys):
        if number % 2 == 0:
            low ^= _hash(high, key) >> low_shift
        else:
            high ^= _hash(low, key) >> high_shift
    return high << np.uint64(num_low_bits) | low


def _hash(values: NDArray[np.uint64], key: np.uint64) -> NDArray[np.uint64]:
    """Mix 64 bits; the upper ones depend on every bit of the value and the key."""
    mixed = values ^ key
    mixed *= _MULTIPLIERS[0]
    mixed ^= mixed >> _HALF
    mixed *= _MULTIPLIERS[1]
    return mixed
