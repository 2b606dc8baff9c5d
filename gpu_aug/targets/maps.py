"""Maps of numbers over an image, such as depth and optical flow, which move like the image.

A pixel of a map belongs to the image's pixel at its position; nearest pixels are taken, and vectors are transformed. Unknown
values, also outside the image, are NaN.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gpu_aug.draw_operations import row_of
from gpu_aug.draws import Draws
from gpu_aug.errors import RecipeError, TargetsError
from gpu_aug.ops.foreign.foreign import Foreign
from gpu_aug.ops.geometric.perspective import Perspective, RandomPerspective
from gpu_aug.ops.geometric.spatial import Moving, Remap, Spatial
from gpu_aug.ops.imported.dropout import RandomGridShuffle
from gpu_aug.ops.mix import Mixing
from gpu_aug.ops.operation import Operation
from gpu_aug.recipe import Recipe
from gpu_aug.targets.move_one import Moved, move, moves_targets
from gpu_aug.targets.targets import BoxParams, KeypointParams

Maps = NDArray[np.float32]
"""[M, H, W]."""


def check_maps(recipe: Recipe, *, vectors: bool) -> None:
    """Check that a recipe can move maps.

    Args:
        recipe: One recipe.
        vectors: Whether some maps hold vectors, which rotate and scale with the image.

    Raises:
        RecipeError: An operation cannot move maps; the error names it, the reason and a way out.
        TargetsError: Code of a user or of another library moves pixels, or may move them.
    """
    for leaf in recipe.leaves:
        if isinstance(leaf, Foreign):
            leaf.check_targets()
        reason = _refusal(leaf) or (_refusal_of_vectors(leaf) if vectors else "")
        if reason:
            raise RecipeError(
                f"{type(leaf).__name__} cannot be done with {'flow' if vectors else 'maps'}: {reason}: take it out "
                f"of the recipe, or leave out the {'flow' if vectors else 'maps'}"
            )


def move_maps(
    recipe: Recipe, draws: Draws, row: int, maps: Maps, vectors: Sequence[int] = ()
) -> Maps:
    """Return the maps of one image as a recipe moves them.

    Args:
        recipe: A recipe that `check_maps` accepts.
        draws: Draws that ``recipe.draw`` returned.
        row: The image's row in the draws.
        maps: The maps, float32 [M, H, W], of the image's size; not written to.
        vectors: Index of the first map of each pair that holds vectors (x, y), in pixels, from a point to the corresponding
            point in another image of that size, which is moved alike. The linear part of the move multiplies them.

    Returns:
        The moved maps, float32 [M, H', W'].

    Raises:
        TargetsError: The maps and the image have different sizes.
    """
    sizes = draws.sizes[row : row + 1]
    if maps.shape[1:] != tuple(sizes[0]):
        raise TargetsError(
            f"maps must be as large as the image, {sizes[0, 0]}x{sizes[0, 1]}, got {maps.shape[1]}x{maps.shape[2]}"
        )
    size = (int(sizes[0, 0]), int(sizes[0, 1]))
    one = Moved(None, None, None, None, maps, size, size, BoxParams(), KeypointParams())
    linear = np.eye(2)
    for leaf, params in zip(recipe.leaves, draws.decode_params + draws.params, strict=True):
        own = row_of(params, row)
        before = np.array([one.after])
        after = leaf.result_size(own, before)
        one.size, one.after = one.after, (int(after[0, 0]), int(after[0, 1]))
        if not own["apply"][0] or not moves_targets(leaf):
            continue
        if isinstance(leaf, Moving):
            linear = leaf.forward(own, before)[0, :2, :2] @ linear
        move(leaf, one, params, row)
    assert one.masks is not None
    moved = np.array(one.masks, np.float32, order="C")
    for first in vectors:
        moved[first : first + 2] = np.einsum("ij,jhw->ihw", linear, moved[first : first + 2])
    return moved


def _refusal(leaf: Operation) -> str:
    """Return why an operation cannot move maps, or "" if it can."""
    if isinstance(leaf, Mixing):
        return "maps of several images, such as depth, have no mixture"
    if isinstance(leaf, Spatial) and not moves_targets(leaf):
        return "how it moves them is not known"
    return ""


def _refusal_of_vectors(leaf: Operation) -> str:
    if isinstance(leaf, Remap | Perspective | RandomPerspective):
        return "what it does to a vector depends on the place, and on where the vector ends"
    if isinstance(leaf, RandomGridShuffle):
        return "vectors lead from tile to tile"
    return ""
