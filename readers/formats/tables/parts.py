"""Rows that lie in parts (row groups, record batches), one behind the other."""

import numpy as np
from numpy.typing import NDArray


def by_part(
    rows: NDArray[np.int64], starts: NDArray[np.int64]
) -> list[tuple[int, NDArray[np.int64]]]:
    """Sort rows by the part that holds them.

    Args:
        rows: int64 [n], 0 <= row < starts[-1], in any order, repetitions allowed.
        starts: int64 [P + 1], the first row of each part and the end of the last one.

    Returns:
        For each part that is touched, ascending, its number and the positions in `rows`, int64, whose rows
        ascend.
    """
    if not len(rows):
        return []
    order = np.argsort(rows, kind="stable")
    numbers = np.searchsorted(starts, rows[order], "right") - 1
    borders = np.flatnonzero(np.diff(numbers)) + 1
    first = numbers[np.concatenate([[0], borders])].tolist()
    return list(zip(first, np.split(order, borders), strict=True))


def median_rows(starts: NDArray[np.int64]) -> int:
    """Rows of the median part that has any, at least 1."""
    rows = np.diff(starts)
    return max(1, int(np.median(rows[rows > 0])))
