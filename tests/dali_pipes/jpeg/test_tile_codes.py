"""Huffman codes: as short as they can be, never longer than 16 bits."""

import heapq

import numpy as np
import pytest

from dali_pipes.jpeg.tiling.huffman_codes import (
    define_tables,
    empty_lookup,
    optimal_lengths,
    write_tables,
)


def fewest_bits(counts: list[int]) -> int:
    """Bits that Huffman's own method takes, codes of any length allowed (a textbook's heap)."""
    heap = list(counts)
    heapq.heapify(heap)
    bits = 0
    while len(heap) > 1:
        joined = heapq.heappop(heap) + heapq.heappop(heap)
        bits += joined
        heapq.heappush(heap, joined)
    return bits


def counts_of(*values: int) -> np.ndarray:
    return np.pad(np.array(values, np.int64), (0, 257 - len(values)))


def test_codes_are_the_shortest() -> None:
    """Random counts take as many bits as Huffman's method needs beside one code that is kept free."""
    rng = np.random.default_rng(0)
    for size in (1, 2, 3, 17, 60):
        counts = counts_of(*(1 + rng.integers(0, 40, size)).tolist())

        lengths = optimal_lengths(counts)

        used = counts[counts > 0].tolist()
        free = int(lengths.max())  # the free code is among the longest
        assert (lengths * counts).sum() + free == fewest_bits([*used, 1])


def test_codes_have_at_most_16_bits() -> None:
    """Counts that grow like Fibonacci's numbers would want codes of 30 bits."""
    fibonacci = [1, 1]
    while len(fibonacci) < 30:
        fibonacci.append(fibonacci[-1] + fibonacci[-2])

    lengths = optimal_lengths(counts_of(*fibonacci))[:30]

    assert lengths.max() == 16
    assert (np.diff(lengths[1:]) <= 0).all()  # what is rarer is longer
    assert (2.0**-lengths).sum() < 1  # room for the code of ones


@pytest.mark.parametrize("num_symbols", [1, 5, 256])
def test_tables_are_read_as_written(num_symbols: int) -> None:
    """Every code of a written table leads back to its symbol, and none consists of ones."""
    rng = np.random.default_rng(num_symbols)
    counts = np.zeros((8, 257), np.int64)
    counts[4, rng.permutation(256)[:num_symbols]] = 1 + rng.integers(0, 1 << 20, num_symbols) ** 2

    segment, codes = write_tables(counts, [4])
    lookup = empty_lookup()

    assert define_tables(segment[4:], lookup) == {4}
    assert np.count_nonzero(codes.length) == num_symbols
    for symbol in np.flatnonzero(codes.length[4]):
        length, code = int(codes.length[4, symbol]), int(codes.code[4, symbol])
        assert code != (1 << length) - 1
        index = code + int(lookup.offset[4, length])
        assert lookup.symbols[4, index] == symbol
        if length <= 10:
            assert lookup.short[4, code << (10 - length)] == length << 8 | symbol
