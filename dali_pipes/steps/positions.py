"""Where in an epoch samples stand: an order says what stands where alone, so it is searched."""

from collections.abc import Sequence

import numpy as np

from readers.order import AnyOrder

_PIECE = 1 << 18  # positions that are looked at together


def positions_of(
    order: AnyOrder, epoch: int, indices: Sequence[int], times: int = 1
) -> list[list[int]]:
    """Return for each sample the first positions at which an epoch has it.

    Args:
        order: The order.
        epoch: The epoch.
        indices: Places of the samples in the dataset.
        times: After how many positions of each the search may end.

    Returns:
        Ascending positions of each; fewer than `times` where the epoch has it less often.
    """
    found: list[list[int]] = [[] for _ in indices]
    for start in range(0, len(order), _PIECE):
        positions = np.arange(start, min(start + _PIECE, len(order)), dtype=np.int64)
        there, _ = order.places(epoch, positions)
        for index, one in zip(indices, found, strict=True):
            one += positions[there == index].tolist()
        if all(len(one) >= times for one in found):
            break
    return found
