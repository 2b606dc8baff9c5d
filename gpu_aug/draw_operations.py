"""Drawing of the parameters of every operation of a recipe from random numbers."""

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
    """Return the uniform numbers of each slot of the operations.

    Args:
        operations: Operations of a recipe.
        seed: Seed, not negative.
        epoch: Epoch, not negative.
        indices: Sample indices in the dataset, int64 [B].
        groups: Index of each sample's group, whose samples are mixed with each other, int64 [B]; slots that a group shares are
            drawn by it instead of by the sample index.
        view: Index of the view.

    Returns:
        For each slot, uniform numbers, float64 [B, n].
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
    """Return the parameters of every leaf and of every temporal operation.

    Args:
        operations: All operations of a recipe.
        numbers: Uniform numbers of each slot; see ``slot_numbers``.
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
    """Return the parameters of the image ``row`` as views with first axis 1."""
    return {name: values[row : row + 1] for name, values in params.items()}
