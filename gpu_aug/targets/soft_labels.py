"""Soft labels: the shares of the classes in mixed images."""

import numpy as np
from numpy.typing import NDArray

from gpu_aug.draws import Draws
from gpu_aug.errors import RecipeError
from gpu_aug.ops.mix import Mixing
from gpu_aug.recipe import Recipe

Labels = NDArray[np.int64] | NDArray[np.float32] | NDArray[np.float64]


def soft_labels(
    recipe: Recipe, draws: Draws, labels: Labels, num_classes: int | None = None
) -> NDArray[np.float32]:
    """Return the soft labels of the images that ``recipe`` makes with ``draws``, float32 [B, C].

    Each mixing operation mixes the labels as it mixes the images: MixUp and CutMix by ``lam`` (for CutMix this is the area
    outside the clipped rectangle), Mosaic by the area of each tile. An image that is mixed with no other keeps its label. With
    Views, each view has its own labels.

    Args:
        recipe: The recipe; it need not mix images.
        draws: Draws of these B samples that ``recipe.draw`` returned.
        labels: Class indices, integers [B] in [0, C), or soft labels, floating-point [B, C].
        num_classes: Number of classes C; None takes it from soft labels, or from the recipe's operations.

    Raises:
        RecipeError: The number of classes is unknown or contradicts the labels, or a label is not a class.
    """
    mixing = [
        (leaf, params)
        for leaf, params in zip(recipe.batch_leaves, draws.params, strict=True)
        if isinstance(leaf, Mixing)
    ]
    soft = _as_shares(np.asarray(labels), num_classes or class_count(recipe), len(draws))
    for leaf, params in mixing:
        sources, shares = leaf.sources(draws.partners), leaf.shares(params)
        blended = np.einsum("bn,bnc->bc", shares, soft[sources])
        soft = np.where(leaf.mixed(params, draws.partners)[:, None], blended, soft)
    return soft.astype(np.float32)


def missing_labels(count: int, size: int, value: int = -1) -> str:
    """Return the error text for a batch of ``size`` labels of which ``count`` are missing (have the value ``value``)."""
    return (
        f"{count} of {size} labels of the batch are {value}, which means that the data has no label for these "
        'samples: give labels with open_dataset(..., labels=...), or leave the samples out with dataset.where("label >= 0")'
    )


def class_count(recipe: Recipe) -> int | None:
    """Return the ``num_classes`` of the recipe's mixing operations, or None if no operation has one.

    Raises:
        RecipeError: Two operations have different numbers.
    """
    counts = {
        leaf.num_classes
        for leaf in recipe.leaves
        if isinstance(leaf, Mixing) and leaf.num_classes is not None
    }
    if len(counts) > 1:
        raise RecipeError(
            f"num_classes must be the same in all operations, got {sorted(counts)}: "
            "give it once, or give all of them the same number"
        )
    return counts.pop() if counts else None


def _as_shares(
    labels: NDArray[np.generic], num_classes: int | None, num: int
) -> NDArray[np.float64]:
    if labels.ndim == 2 and len(labels) == num and np.issubdtype(labels.dtype, np.floating):
        if num_classes not in (None, labels.shape[1]):
            raise RecipeError(
                f"soft labels must have {num_classes} columns, got {labels.shape[1]}: "
                "correct num_classes, or leave it out"
            )
        return labels.astype(np.float64)
    if labels.shape != (num,) or not np.issubdtype(labels.dtype, np.integer):
        raise RecipeError(
            f"labels must be whole numbers of shape ({num},) or soft labels, float, of shape "
            f"({num}, number of classes), got {labels.dtype} of shape {labels.shape}"
        )
    if num_classes is None:
        raise RecipeError(
            "num_classes must be known to mix labels that are class numbers, got None: "
            "give it to the mixing operation, as in MixUp(num_classes=1000)"
        )
    numbers = labels.astype(np.int64)
    if num_missing := int((numbers < 0).sum()):  # soft labels have no ignore_index
        raise RecipeError(
            "images are mixed with their labels, but "
            + missing_labels(num_missing, num, int(numbers.min()))
        )
    if len(outside := numbers[numbers >= num_classes]):
        raise RecipeError(
            f"labels must be below num_classes, {num_classes}, got {int(outside[0])}: correct num_classes"
        )
    shares: NDArray[np.float64] = np.eye(num_classes)[numbers]
    return shares
