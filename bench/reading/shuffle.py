"""Quality of shuffle orders and their cost in blocks read: ours, and MosaicML Streaming's.

    python -m bench.reading.shuffle --mosaic .peers/mosaic-streaming/bin/python

Every order is that of one epoch. The measures are of neighbours alone: an order can be predictable in ways
that they do not see.
"""

import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers import Order

_ALGORITHMS = ("py1e", "py1br", "py1s", "naive")
_BATCH = 256
_CLOSED_AFTER = 20  # times the size of a block without a sample of it
_THEIRS = """
import sys
import numpy as np
from streaming.base.shuffle import get_shuffle
length, block, window, seed = map(int, sys.argv[3:])
sizes = np.array([block] * (length // block) + ([length % block] if length % block else []))
np.save(sys.argv[2], get_shuffle(sys.argv[1], sizes, 1, seed, 0, window))
"""


@dataclass(frozen=True)
class Quality:
    """Measures of an order.

    Attributes:
        name: Name of the order.
        of_samples: Entropy in bits of the distances of neighbours.
        of_blocks: Entropy in bits of the distances of the neighbours' blocks.
        num_open: Mean number of blocks that have begun and are not done.
        most_open: The largest.
        reads: How often a block is opened, on average.
        burst: The most blocks that begin within a batch of 256, but for the first tenth of the epoch.
    """

    name: str
    of_samples: float
    of_blocks: float
    num_open: float
    most_open: int
    reads: float
    burst: int


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


def block_runs(blocks: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first and the last position of every time that a block is open.

    A block that has not been asked for during 20 times its samples has been closed meanwhile.

    Args:
        blocks: int64 [n], the block at each position.
    """
    positions = np.argsort(blocks, kind="stable")
    of_block = blocks[positions]
    usual = max(4096, _CLOSED_AFTER * len(blocks) // (int(of_block[-1]) + 1))
    same = (np.diff(of_block) == 0) & (np.diff(positions) <= usual)
    begins = np.concatenate([[True], ~same])
    ends = np.concatenate([~same, [True]])
    return positions[begins], positions[ends]


def measure(name: str, order: NDArray[np.int64], block_size: int) -> Quality:
    """Measure the order of an epoch, int64 [n]."""
    length = len(order)
    index_blocks = np.arange(length) // block_size
    blocks = index_blocks[order]
    begins, ends = block_runs(blocks)
    change = np.zeros(length + 1, np.int64)
    np.add.at(change, begins, 1)
    np.add.at(change, ends + 1, -1)
    is_open = np.cumsum(change)[:length]
    bursts = np.bincount(begins // _BATCH)[length // _BATCH // 10 :]
    return Quality(
        name,
        *entropies(order, index_blocks),
        float(is_open.mean()),
        int(is_open.max()),
        len(begins) / (int(index_blocks[-1]) + 1),
        int(bursts.max(initial=0)),
    )


def mosaic_order(
    python: Path, algorithm: str, length: int, block_size: int, window: int, seed: int
) -> NDArray[np.int64]:
    """Return the order of MosaicML Streaming, by an interpreter that can import it."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "order.npy"
        told = [algorithm, str(out), *map(str, (length, block_size, window, seed))]
        subprocess.run([python, "-c", _THEIRS, *told], check=True, capture_output=True)
        order: NDArray[np.int64] = np.load(out)
        return order


def write(line: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--length", type=int, default=1_281_167)
    parser.add_argument("--block-size", type=int, default=128)
    parser.add_argument("--windows", default="4,16,64,256", help="blocks that are held at once")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mosaic", type=Path, help="a Python that can import streaming")
    given = parser.parse_args()
    write(f"{given.length} samples in blocks of {given.block_size}")
    write(
        "order       window  samples  blocks     sum | open: mean   max  reads per block  most begun in 256"
    )
    for window in [0, *map(int, given.windows.split(","))]:
        for name, order in _orders(given, window):
            one = measure(name, order, given.block_size)
            both = one.of_samples + one.of_blocks
            write(
                f"{one.name:10}  {window or '':6}  {one.of_samples:7.3f} {one.of_blocks:7.3f} {both:7.3f} | "
                f"{one.num_open:10.1f} {one.most_open:5d} {one.reads:16.3f} {one.burst:18d}"
            )


def _orders(given: Any, window: int) -> list[tuple[str, NDArray[np.int64]]]:
    """Return the orders that hold a number of blocks at once; 0 for those that hold all, or one."""
    length, block_size, seed = given.length, given.block_size, given.seed
    positions = np.arange(length)
    if window:
        ours = Order(length, seed, "block", block_size, window)
        orders = [("block", ours.indices(0, positions))]
        algorithms = _ALGORITHMS[:2]
    else:
        orders = [
            ("none", positions),
            ("global", Order(length, seed).indices(0, positions)),
        ]
        algorithms = _ALGORITHMS[2:]
    if given.mosaic is not None:
        samples = max(window, 1) * block_size
        for name in algorithms:
            theirs = mosaic_order(given.mosaic, name, length, block_size, samples, seed)
            orders.append((name, theirs))
    return orders


if __name__ == "__main__":
    main()
