"""Which operations are carried out while decoding, and which sizes images can have between operations."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gpu_aug.errors import RecipeError
from gpu_aug.ops.combine import Combinator
from gpu_aug.ops.geometric.spatial import Crop, Resample, Spatial
from gpu_aug.ops.operation import Operation, sizes_after

_ANY_SIZES = np.array(
    [[211, 307], [503, 401]]
)  # primes, so that no operation keeps a size by chance


def num_decoded(operations: Sequence[Operation]) -> int:
    """Return how many leading operations on images form the decode stage.

    These are crops, at most one operation that resamples, and at most one crop after it.
    """
    resampled = padded = False
    for number, operation in enumerate(operations):
        resamples = isinstance(operation, Resample)
        # Decoding rounds the border between image and padding to a full pixel.
        if not suits_decoding(operation) or (resamples and (resampled or padded)):
            return number
        if resampled:
            return number + 1
        resampled = resamples
        padded = padded or (isinstance(operation, Spatial) and operation.may_pad)
    return len(operations)


def suits_decoding(operation: Operation) -> bool:
    """Return whether an operation can be part of the decode stage.

    It must be applied to every image, interpolate bilinearly, and pad with black.
    """
    if getattr(operation, "p", 1.0) != 1:
        return False
    if isinstance(operation, Resample):
        area = getattr(operation, "area_for_downscale", False)
        return operation.interpolation == "bilinear" and not operation.may_pad and not area
    if isinstance(operation, Crop):
        return operation.padding_mode == "constant" and not np.any(operation.fill)
    return False


def possible_sizes(operations: Sequence[Operation]) -> tuple[NDArray[np.int64], ...]:
    """Return every size, int64 [n, 2], that images can have before each operation and after the last.

    Raises:
        RecipeError: An operation cannot be carried out on an image of such a size.
    """
    sizes = [_ANY_SIZES]
    for operation in operations:
        sizes.append(np.unique(sizes_after(operation, sizes[-1]), axis=0))
    return tuple(sizes)


def num_single(operations: Sequence[Operation], sizes: Sequence[NDArray[np.int64]]) -> int:
    """Return how many leading leaves must run on single images, because the sizes of images may differ there.

    Args:
        operations: The operations on images, without temporal ones.
        sizes: Sizes before each operation and after the last; see ``possible_sizes``.
    """
    single = leaves = 0
    for operation, before, after in zip(operations, sizes, sizes[1:], strict=False):
        leaves += len(operation.leaves)
        # A combinator that changes the size has leaves that get both sizes.
        changes_within = isinstance(operation, Combinator) and not np.array_equal(before, after)
        if len(before) > 1 or len(after) > 1 or changes_within:
            single = leaves
    return single


def check_range(leaves: Sequence[Operation]) -> None:
    """Check that operations that need values in [0, 1] come before Normalize and similar operations.

    Raises:
        RecipeError: Such an operation comes after one of them.
    """
    normalized = False
    for leaf in leaves:
        if normalized and leaf.needs_unit_range:
            name = type(leaf).__name__
            raise RecipeError(
                f"{name} must come before Normalize, got it after: it needs values in [0, 1], "
                "so change their order"
            )
        normalized = normalized or leaf.leaves_unit_range
