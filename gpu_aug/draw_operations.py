"""Drawing the parameters of every operation of a recipe from random numbers."""

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from gpu_aug.draws import Params, slots_of_view, uniforms
from gpu_aug.ops.distributions.uniform import Uniforms
from gpu_aug.ops.operation import Operation
from gpu_aug.ops.temporal import Temporal


def slot_numbers(
    operations: Sequence[Operation],
    seed: int,
    epoch: int,
    indices: NDArray[np.int64],
    groups: NDArray[np.int64],
    *,
    view: int,
) -> Iterator[Uniforms]:
    """Draw the uniform numbers of each slot of the operations.

    Args:
        operations: The operations of a recipe.
        seed: Not negative.
        epoch: Not negative.
        indices: Sample indices in the dataset, int64 [B].
        groups: Number of the group of samples that are mixed with each other, int64 [B]; slots that are shared by a group
            draw by it instead of the index.
        view: Number of the view.

    Returns:
        Float64 [B, n] for each slot.
    """
    needs = list(chain.from_iterable(operation.slots for operation in operations))
    shared = list(chain.from_iterable(operation.slots_by_group for operation in operations))
    slots = slots_of_view(view)
    by_index = uniforms(seed, epoch, indices, needs, slots=slots)
    if not any(shared):
        return iter(by_index)
    by_group = uniforms(seed, epoch, groups, needs, slots=slots)
    choices = zip(shared, by_index, by_group, strict=True)
    return (of_group if share else of_sample for share, of_sample, of_group in choices)


def draw_operations(
    operations: Sequence[Operation], numbers: Iterator[Uniforms], sizes: NDArray[np.int64]
) -> tuple[tuple[Params, ...], tuple[Params, ...]]:
    """Draw the parameters of every leaf and of every temporal operation.

    Args:
        operations: All of a recipe.
        numbers: See ``slot_numbers``.
        sizes: Height and width of the source images, int64 [B, 2].
    """
    drawn: list[Params] = []
    temporal: list[Params] = []
    for operation in operations:
        if isinstance(operation, Temporal):
            temporal.append(operation.draw(next(numbers), sizes))
            continue
        params, sizes = operation.draw_leaves(numbers, sizes)
        # Copies: an operation may return broadcast views, of which torch warns.
        drawn += [{name: np.array(leaf[name]) for name in leaf} for leaf in params]
    return tuple(drawn), tuple(temporal)


def row_of(params: Params, row: int) -> Params:
    """Return the parameters of one image as views, first axis 1."""
    return {name: values[row : row + 1] for name, values in params.items()}
