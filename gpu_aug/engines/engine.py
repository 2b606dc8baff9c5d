"""Engine, the interface of what carries out the batch stage of a recipe, and helpers for its implementations."""

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
    """An engine that is ready to carry out the batch stage of one recipe on one device.

    Values are float32 in [0, 1] until Normalize; for some ImageKinds they keep the range in which they are stored. ``run``
    may be called from several threads at once; an engine keeps no state between calls.

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
        """Carry out the batch stage on a batch of images and write the results to ``out``.

        Args:
            images: The images [b, H, W, 3], uint8 or float32 in [0, 1], contiguous, of the recipe's decode size, on
                the engine's device. If the decode size is None, a sequence of b images [H, W, 3]. They are not
                written to.
            draws: The draws of these b samples. If the recipe mixes images, the batch must consist of
                full groups of neighbouring positions.
            out: The results [b, 3, H', W'] of the recipe's size, on the same device, in any memory format; every value
                is written. If the recipe's size is None, b is 1 and the size is that of the image. A floating-point
                dtype gets the values; uint8 gets ``round(255 * value)``, clamped, which is useful only without
                Normalize.
        """
        ...


def takes_batches(recipe: Recipe) -> bool:
    """Return whether the recipe has a function of the user that is called with all images of a batch at once."""
    return any(isinstance(leaf, BatchFunction) for leaf in recipe.batch_leaves)


def num_uint8(leaves: Sequence[Operation]) -> int:
    """Return how many leading operations can be carried out on uint8 images without rounding."""
    return sum(1 for _ in takewhile(lambda leaf: leaf.moves_pixels_only, leaves))


def prepare_steps(
    recipe: Recipe, prepare: Callable[[Operation], Any], normalize: Callable[..., Any]
) -> tuple[list[Any], int, bool]:
    """Return the step of each operation of the batch stage, and where images stop being uint8.

    Args:
        recipe: The recipe.
        prepare: Function that returns the step of an operation.
        normalize: Function that returns the step of a Normalize for values in [0, unit]; it is called as
            ``normalize(operation, unit=255.0)``.

    Returns:
        The steps; how many leading steps work on uint8 images; and whether values must be divided by 255 after these.
        They must not if the next step is a Normalize that every image gets, which then includes the division: this saves
        one pass over the images.
    """
    num = num_uint8(recipe.batch_leaves)
    steps = [prepare(leaf) for leaf in recipe.batch_leaves]
    first = _leading_normalize(recipe, num)
    if first is not None:
        steps[num] = normalize(first, unit=255.0)
    return steps, num, first is None


def _leading_normalize(recipe: Recipe, num: int) -> Normalize | None:
    """Return the operation after the first ``num`` ones if it is a Normalize that every image gets, else None."""
    leaves = -len(recipe.decode_operations)
    for operation in recipe.image_operations:
        if leaves == num:
            return operation if isinstance(operation, Normalize) else None
        leaves += len(operation.leaves)
    return None
