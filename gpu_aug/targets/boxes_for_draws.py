"""The boxes that images have before the operations whose draws depend on them."""

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_aug.draw_operations import draw_operations
from gpu_aug.errors import RecipeError, TargetsError
from gpu_aug.ops.combine import Combinator
from gpu_aug.ops.distributions.uniform import Uniforms
from gpu_aug.ops.geometric.box_crops import NumbersAndBoxes, RowBoxes
from gpu_aug.ops.operation import Operation
from gpu_aug.recipe import Recipe
from gpu_aug.targets import boxes as box_math
from gpu_aug.targets.enter_recipe import enter
from gpu_aug.targets.move_batch import check_recipe, move_through
from gpu_aug.targets.move_one import Moved
from gpu_aug.targets.targets import Targets


def numbers_with_boxes(
    recipe: Recipe,
    numbers: Iterable[Uniforms],
    sizes: NDArray[np.int64],
    partners: NDArray[np.int64],
    boxes: Sequence[Any] | None,
) -> list[Any]:
    """Return the numbers of each slot, with the boxes of the images beside those of operations that look at boxes.

    The boxes before such an operation depend on the draws of the operations before it, so these are drawn and move the boxes first.

    Args:
        recipe: A recipe with such operations.
        numbers: Uniform numbers of each slot; see `gpu_aug.draw_operations.slot_numbers`.
        sizes: Height and width of the source images, int64 [B, 2].
        partners: Rows that each row may be mixed with; see Draws.
        boxes: Boxes of each source image, [Ni, 4] in the format of ``recipe.boxes``.

    Raises:
        RecipeError: ``boxes`` is None, or an operation before cannot move boxes.
        TargetsError: A sample has no boxes, or they do not fit their image; the error names its row.
    """
    leaves = recipe.leaves
    looking = [number for number, leaf in enumerate(leaves) if leaf.needs_boxes]
    targets = _as_targets(type(leaves[looking[0]]).__name__, boxes, len(sizes))
    check_recipe(recipe, ("boxes",))
    given: list[Any] = list(numbers)
    is_slot = chain.from_iterable(map(_slots_with_boxes, recipe.operations))
    slots = (slot for slot, needs in enumerate(is_slot) if needs)
    stops = [0, *accumulate(len(operation.leaves) for operation in recipe.operations)]
    for slot, number in zip(slots, looking, strict=True):
        # Up to the operation with this leaf: a combinator may have others before it.
        num = int(np.searchsorted(stops, number))
        drawn, _ = draw_operations(recipe.operations[:num], iter(given), sizes)
        batch = [
            enter(recipe, one, (int(height), int(width)), row, only_boxes=True)
            for row, (one, (height, width)) in enumerate(zip(targets, sizes, strict=True))
        ]
        batch = move_through(recipe, drawn[:number], sizes, partners, batch)
        given[slot] = NumbersAndBoxes(given[slot], _joined(batch))
    return given


def _as_targets(name: str, boxes: Sequence[Any] | None, count: int) -> list[Targets]:
    if boxes is None:
        raise RecipeError(
            f"{name} looks at the boxes of samples, got none: give boxes=[...] to draw, or call gpu_aug.apply or the "
            'transform with {"image": ..., "boxes": [...]}'
        )
    if len(boxes) != count:
        raise TargetsError(f"boxes must be one list per sample ({count}), got {len(boxes)}")
    missing = next((row for row, own in enumerate(boxes) if own is None), None)
    if missing is not None:
        raise TargetsError(
            f"sample {missing}: boxes must be given, for {name} looks at them, got none: give them, an empty list where "
            "there is nothing"
        )
    return [Targets(boxes=own) for own in boxes]


def _slots_with_boxes(operation: Operation) -> list[bool]:
    """Return which slots of an operation belong to operations that look at boxes."""
    if isinstance(operation, Combinator):
        return [False, *chain.from_iterable(map(_slots_with_boxes, operation.children))]
    return [operation.needs_boxes] * len(operation.slots)


def _joined(batch: Sequence[Moved]) -> RowBoxes:
    # Without the boxes without area that keep_empty keeps.
    boxes = [box_math.around(one.boxes)[box_math.areas(one.boxes) >= 1e-7] for one in batch]
    rows = np.repeat(np.arange(len(boxes)), [len(own) for own in boxes])
    return np.column_stack([rows, np.concatenate([np.empty((0, 4)), *boxes])])
