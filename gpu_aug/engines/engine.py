"""Engine: the interface that carries out the batch stage of a recipe, and the checks of a recipe."""

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any, Protocol

import torch

from gpu_aug.draws import Draws
from gpu_aug.ops import Normalize, Operation
from gpu_aug.ops.foreign.function import BatchFunction
from gpu_aug.recipe import Recipe

Images = torch.Tensor | Sequence[torch.Tensor]
"""[b, H, W, C], or b images [H, W, C] of sizes of their own: uint8, or float32; C is 3 unless an ImageKind says otherwise."""


class Engine(Protocol):
    """The batch stage of one recipe, ready to run on one device.

    Values are float32 in [0, 1] until Normalize, or as they are stored where the ImageKind says so. ``run`` may be called from several threads at
    once; an engine keeps no state between calls.

    Example:
        >>> recipe = Recipe([RandomResizedCrop(32), HorizontalFlip(), Normalize()])
        >>> engine = compile_engine("fused", recipe, device=torch.device("cpu"))
        >>> draws = recipe.draw(0, 0, np.arange(2), np.array([[48, 64]] * 2))
        >>> out = torch.empty(2, 3, 32, 32)
        >>> engine.run(torch.zeros(2, 32, 32, 3, dtype=torch.uint8), draws, out)   # decoded crops
        >>> out.amin().item()                                                      # black, normalised
        -2.11...
    """

    name: str

    def run(self, images: Images, draws: Draws, out: torch.Tensor) -> None:
        """Carry out the batch stage.

        Args:
            images: [b, H, W, 3], uint8 or float32 in [0, 1], of the recipe's decode size,
                contiguous, on the engine's device; where that size is None, a sequence of b images
                [H, W, 3]. Not written to.
            draws: The draws of these b samples. For a recipe that mixes images, b is any number
                of whole groups of neighbouring positions.
            out: [b, 3, H', W'] of the recipe's size (of the image's, where that is None; b is 1) on
                the same device, in any memory format. All of it is written. A floating dtype gets the values; uint8 gets
                ``round(255 * value)`` clamped, which makes sense without Normalize only.
        """
        ...


def takes_batches(recipe: Recipe) -> bool:
    """Whether a function of the user is called with all images of a batch at once."""
    return any(isinstance(leaf, BatchFunction) for leaf in recipe.batch_leaves)


def num_uint8(leaves: Sequence[Operation]) -> int:
    """Return how many leading leaves can be carried out on uint8 without rounding."""
    return sum(1 for _ in takewhile(lambda leaf: leaf.moves_pixels_only, leaves))


def prepare_steps(
    recipe: Recipe, prepare: Callable[[Operation], Any], normalize: Callable[..., Any]
) -> tuple[list[Any], int, bool]:
    """Prepare a step for each leaf of the batch stage.

    Args:
        recipe: The recipe.
        prepare: Returns the step of an operation.
        normalize: Returns the step of a Normalize for values in [0, unit]: ``normalize(operation, unit=255.0)``.

    Returns:
        The steps; how many leading ones work on uint8; whether values are divided by 255 after these. They are not if
        the next step is a Normalize that every image gets: one pass over the images less.
    """
    num = num_uint8(recipe.batch_leaves)
    steps = [prepare(leaf) for leaf in recipe.batch_leaves]
    first = _leading_normalize(recipe, num)
    if first is not None:
        steps[num] = normalize(first, unit=255.0)
    return steps, num, first is None


def _leading_normalize(recipe: Recipe, num: int) -> Normalize | None:
    """Return the leaf after the ``num`` first ones, if it is a Normalize that every image gets."""
    leaves = -len(recipe.decode_operations)
    for operation in recipe.image_operations:
        if leaves == num:
            return operation if isinstance(operation, Normalize) else None
        leaves += len(operation.leaves)
    return None
