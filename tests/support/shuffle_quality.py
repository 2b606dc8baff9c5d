"""Measures of how well an order mixes a dataset, and of what it costs in blocks that are read."""

import numpy as np
from numpy.typing import NDArray

_CLOSED_AFTER = 20  # times the size of a block without a sample of it


def entropies(order: NDArray[np.int64], blocks: NDArray[np.int64]) -> tuple[float, float]:
    """Return the entropy of the distances of neighbours, and of the distances of their blocks, in bits.

    Args:
        order: Index at each position, int64 [n].
        blocks: Block of each index, int64 [n].

    Source: the measure that MosaicML Streaming's simulator shows as shuffle quality, the sum of the two:
    simulation/core/shuffle_quality.py of github.com/mosaicml/streaming, `get_entropy` and
    `get_entropy_shuffle_quality`, commit 002b9f8. Absolute differences, their frequencies, base 2.
    """
    return _entropy(order), _entropy(blocks[order])


def _entropy(values: NDArray[np.int64]) -> float:
    counts = np.bincount(np.abs(np.diff(values)))
    shares = counts[counts > 0] / (len(values) - 1)
    return abs(float((shares * np.log2(shares)).sum()))


def block_openings(blocks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the positions at which a block is opened.

    A block that has not been asked for during 20 times its samples has been closed meanwhile.

    Args:
        blocks: int64 [n], the block at each position.
    """
    positions = np.argsort(blocks, kind="stable")
    of_block = blocks[positions]
    usual = max(4096, _CLOSED_AFTER * len(blocks) // (int(of_block[-1]) + 1))
    same = (np.diff(of_block) == 0) & (np.diff(positions) <= usual)
    return positions[np.concatenate([[True], ~same])]
