"""The order of samples in each epoch, computed without I/O or state."""

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from readers.order.permutation import make_keys, permute

Shuffle = Literal["global", "block", "none"]
SHUFFLES: tuple[Shuffle, ...] = ("global", "block", "none")

# Mixed into the keys of permutations, so that each use of a seed gets different keys. The global order mixes in none.
_LANES, _BLOCKS, _WITHIN, _PLACES = 1, 2, 3, 4


class AnyOrder(Protocol):
    """The interface of orders, which loaders use; `len` is the number of positions in an epoch."""

    @property
    def name(self) -> str:
        """Text with the kind of the order and its parameters, which states store to check that a run resumes on this order."""

    def __len__(self) -> int: ...

    def places(
        self, epoch: int, positions: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the dataset index at each position of an epoch, and the repeat of that index.

        Args:
            epoch: Number of the epoch, >= 0.
            positions: int64 [n], each 0 <= position < len.

        Returns:
            Indices, int64 [n]; and repeats, int64 [n], integers >= 0 that differ each time that the epoch has the same index.
        """


@dataclass(frozen=True)
class Order:
    """The order of a dataset's samples in each epoch, in which every index comes once.

    The order depends only on its attributes and the epoch, so any rank can compute any slice of any epoch, and a run can
    continue anywhere.

    "global" permutes the whole dataset, differently in each epoch. "none" keeps the order of the dataset.

    "block" reads neighbouring samples together. Blocks of `block_size` neighbours are permuted, and `window_blocks`
    of them are open at any time. The next `window_blocks` samples are one from each open block, in a new random order
    every time; the samples within a block are permuted, too. Blocks end at different times: about every `block_size`
    positions one ends and the next one begins. So a batch has samples of the `window_blocks` open blocks and of those
    that began meanwhile. An epoch begins in the middle of its first blocks, whose other samples come at its end: up to
    2 * `window_blocks` blocks are opened twice. If `window_blocks` blocks cover the whole dataset, "block" is the
    global order.

    Attributes:
        length: Number of samples, >= 0.
        seed: Seed of the shuffle, >= 0.
        shuffle: "global", "block" or "none".
        block_size: For "block", the number of samples in a block; the last block may have fewer.
        window_blocks: For "block", the number of blocks that are open at a time.

    Example:
        >>> order = Order(length=10, seed=0)
        >>> order.indices(epoch=0, positions=np.arange(10)).tolist()
        [6, 4, 5, 1, 9, 7, 8, 2, 3, 0]
    """

    length: int
    seed: int = 0
    shuffle: Shuffle = "global"
    block_size: int = 256
    window_blocks: int = 16

    def __post_init__(self) -> None:
        if self.length < 0 or self.seed < 0:
            raise ValueError(
                f"length and seed must be >= 0, got length={self.length}, seed={self.seed}"
            )
        if self.shuffle not in SHUFFLES:
            raise ValueError(f"shuffle must be 'global', 'block' or 'none', got {self.shuffle!r}")
        if self.block_size < 1 or self.window_blocks < 1:
            raise ValueError(
                f"block_size and window_blocks must be >= 1, got block_size={self.block_size}, "
                f"window_blocks={self.window_blocks}"
            )

    def __len__(self) -> int:
        return self.length

    @property
    def name(self) -> str:
        """Text with the shuffle; for "block" also `block_size` and `window_blocks`."""
        if self.shuffle == "block":
            return f"block(block_size={self.block_size}, window_blocks={self.window_blocks})"
        return self.shuffle

    def indices(self, epoch: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the dataset index at each position of an epoch.

        Args:
            epoch: Number of the epoch, >= 0.
            positions: int64 [n], each 0 <= position < length. Time and memory are proportional to n.

        Returns:
            int64 [n]; the indices are distinct if the positions are.

        Raises:
            IndexError: A position is outside the epoch.
        """
        positions = checked_positions(positions, self.length)
        if self.shuffle == "none" or positions.size == 0:
            return positions.copy()
        if self.shuffle == "block" and self.window_blocks * self.block_size < self.length:
            return self._in_blocks(epoch, self._in_lanes(epoch, positions))
        return permute(positions, self.length, make_keys(self.seed, epoch))

    def places(
        self, epoch: int, positions: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the dataset index at each position, and zeros, as no index comes twice; see `AnyOrder.places`."""
        indices = self.indices(epoch, positions)
        return indices, np.zeros_like(indices)

    def _in_lanes(self, epoch: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return, for each position, a slot (a place in the sequence of permuted blocks), int64 [n].

        The sequence is a circle that is divided into `window_blocks` lanes of equal length (up to one slot). Each round of
        `window_blocks` positions takes one slot from each lane. A lane is not read from its start but from its phase, and
        wraps around at its end.
        """
        num_lanes = self.window_blocks
        turn = self._draw(epoch, 1, self.length)  # so that every index can come at every position
        size, num_longer = divmod(self.length, num_lanes)
        rounds, slots = np.divmod(positions, num_lanes)
        lanes = permute(
            slots,
            np.where(rounds < size, num_lanes, num_longer),
            make_keys(self.seed, epoch, _LANES),
            rounds,
        )
        starts = (lanes * size + np.minimum(lanes, num_longer) + turn) % self.length
        # Lane k begins k shares further into a block than lane 0, so that blocks end evenly in time.
        _, offsets = self._block_of(epoch, starts)
        wanted = lanes * self.block_size // num_lanes + self._draw(epoch, 2, self.block_size)
        phases = (wanted - offsets) % self.block_size
        steps = (rounds + phases) % (size + (lanes < num_longer))
        in_circle: NDArray[np.int64] = (starts + steps) % self.length
        return in_circle

    def _in_blocks(self, epoch: int, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the dataset index at each slot of the sequence of permuted blocks, int64 [n]."""
        blocks, offsets = self._block_of(epoch, slots)
        starts = blocks * self.block_size
        sizes = np.minimum(self.block_size, self.length - starts)
        return starts + permute(offsets, sizes, make_keys(self.seed, epoch, _WITHIN), blocks)

    def _block_of(
        self, epoch: int, slots: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the block at each slot of the sequence of permuted blocks, and the offset of the slot in that block."""
        num_full, short = divmod(self.length, self.block_size)
        keys = make_keys(self.seed, epoch, _BLOCKS)
        if not short:
            turns, offsets = np.divmod(slots, self.block_size)
            return permute(turns, num_full, keys), offsets
        # The block that is shorter is put between the others, which are permuted among themselves.
        turn_of_short = self._draw(epoch, 0, num_full + 1)
        stop = turn_of_short * self.block_size + short
        turns, offsets = np.divmod(
            np.where(slots < stop, slots, slots + self.block_size - short), self.block_size
        )
        others = np.where(turns > turn_of_short, turns - 1, turns)
        blocks = permute(np.minimum(others, num_full - 1), num_full, keys)
        return np.where(turns == turn_of_short, num_full, blocks), offsets

    def _draw(self, epoch: int, which: int, stop: int) -> int:
        return int(make_keys(self.seed, epoch, _PLACES)[which] % np.uint64(stop))


def make_order(
    length: int,
    seed: int,
    shuffle: Shuffle,
    *,
    block_size: int,
    shuffle_window: int | None = None,
) -> Order:
    """Return the order of a dataset's samples.

    Args:
        length: Number of samples.
        seed: Seed of the shuffle, >= 0.
        shuffle: "global", "block" or "none"; see `Order`.
        block_size: For "block", the number of samples in a block.
        shuffle_window: For "block", the number of samples that the open blocks hold together, rounded up to whole blocks.
            None is 4096 samples (450 MB of images of 110 kB) or 16 blocks, whichever is more: a batch of 256 then has
            at most about 16 samples of one block.
    """
    if shuffle != "block":
        return Order(length, seed, shuffle)
    window = max(4096, 16 * block_size) if shuffle_window is None else shuffle_window
    return Order(length, seed, shuffle, block_size, max(1, -(-window // block_size)))


def checked_positions(positions: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    """Return positions as int64.

    Raises:
        IndexError: A position is not in 0 <= position < length.
    """
    positions = np.asarray(positions, dtype=np.int64)
    if positions.size and (positions.min() < 0 or positions.max() >= length):
        raise IndexError(
            f"positions must be in 0 <= position < {length}, "
            f"got {positions.min()} to {positions.max()}"
        )
    return positions


def part(start: int, stop: int, rank: int, world_size: int) -> tuple[int, int]:
    """Return the first position of a rank's share of the positions start <= position < stop, and the position after its last.

    The shares of all ranks are contiguous, cover all positions once, and differ in size by at most 1.

    Raises:
        ValueError: The rank is not in 0 <= rank < world_size, or stop < start.

    Example:
        >>> [part(0, 10, rank, world_size=4) for rank in range(4)]
        [(0, 2), (2, 5), (5, 7), (7, 10)]
    """
    if not 0 <= rank < world_size:
        raise ValueError(f"rank must be in 0 <= rank < world_size, got {rank=}, {world_size=}")
    if stop < start:
        raise ValueError(f"stop must not be before start, got {start=}, {stop=}")
    size = stop - start
    return start + size * rank // world_size, start + size * (rank + 1) // world_size
