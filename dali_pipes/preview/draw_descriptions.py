"""Describe the draws of a sample as text: which operations changed it, and by how much."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu_aug import Draws, Recipe
from gpu_aug.draw_operations import row_of
from gpu_aug.draws import Params
from gpu_aug.ops.foreign.foreign import Foreign
from gpu_aug.ops.mix import Mixing
from gpu_aug.ops.operation import Operation
from gpu_aug.ops.policy.space import BLENDS, PolicyBlend
from gpu_aug.ops.temporal import SPEED_UNIT, Temporal

# Longer vectors are left out, because a caption has only a few lines.
_MOST_NUMBERS = 4

# Parameters without meaning for people: whether an operation is applied, random keys, and values that other parameters show better.
_HIDDEN = ("apply", "key", "seed", "order", "kind", "lam")

_TEXTS = {
    "holes": "from top {}, left {} to bottom {}, right {}",
    "left_right": "left and right mirrored",
    "resize": "to {} x {}",
    "shape": "{} x {} px",
    "start": "top {}, left {}",
    "top_bottom": "top and bottom mirrored",
    "transpose": "transposed",
}
"""Texts by parameter; other parameters are described by name and value."""

# Smaller changes of a matrix are not mentioned: their numbers would be rounded to zero.
_SMALL = 0.005


class DrawnLeaf(NamedTuple):
    """The draw of a sample for one operation without parts.

    Attributes:
        operation: The operation.
        params: The operation's parameters for the sample; the first axis has length 1.
        is_applied: Whether the operation changed the sample: its probability applied, and its mixing partner exists.
        words: The parameters as text; "" if the name of the operation is enough.
    """

    operation: Operation
    params: Params
    is_applied: bool
    words: str


def draw_words(recipe: Recipe, draws: Draws, row: int, keys: Sequence[str] = ()) -> list[str]:
    """Describe how a recipe changed a sample: one text per operation that changed it, in order.

    Operations that treat all samples alike, such as Normalize, are left out.

    Args:
        recipe: The recipe.
        draws: Draws of a batch with the sample.
        row: The row of the sample in the draws.
        keys: Keys of all rows, to name mixing partners.

    Returns:
        Texts such as "RandomResizedCrop: top 6, left 4, 45 x 59 px, to 64 x 64", or a single text if no random
            operation changed the sample.

    Example:
        >>> from dali_pipes.preview import draw_words
        >>> recipe = Recipe([RandomResizedCrop(32), RandomRotation((25, 25)), Normalize()])
        >>> drawn = recipe.draw(seed=0, epoch=0, indices=np.array([7]), sizes=np.array([[48, 64]]))
        >>> draw_words(recipe, drawn, 0)
        ['RandomResizedCrop: top 32, left 20, 16 x 18 px, to 32 x 32', 'RandomRotation: turned 25.0° counter-clockwise']
    """
    texts = []
    for leaf, own, is_applied, words in describe_leaves(recipe, draws, row, keys):
        if is_applied and (set(own) != {"apply"} or leaf.num_uniforms):
            texts.append(": ".join(filter(None, [leaf_name(leaf), words])))
    return texts or ["nothing is changed at random"]


def leaf_name(leaf: Operation) -> str:
    """Return the name that descriptions have for an operation."""
    return leaf.title if isinstance(leaf, Foreign) else type(leaf).__name__.removeprefix("Policy")


def describe_leaves(
    recipe: Recipe, draws: Draws, row: int, keys: Sequence[str] = ()
) -> list[DrawnLeaf]:
    """Describe every operation without parts; operations on the time of clips come first. See `draw_words`."""
    size = draws.sizes[row : row + 1]
    described = []
    for leaf, params in zip(
        (*recipe.temporal_operations, *recipe.leaves),
        (*draws.temporal, *draws.decode_params, *draws.params),
        strict=True,
    ):
        own, is_applied = row_of(params, row), bool(params["apply"][row])
        words = [_parameter(name, value[0], size[0]) for name, value in own.items()]
        if isinstance(leaf, Mixing):
            is_applied = bool(leaf.mixed(params, draws.partners)[row])
            words = [_partners(leaf, own, draws.partners, row, keys), *words]
        if isinstance(leaf, PolicyBlend):
            words = [BLENDS[int(own["kind"][0])].lower(), *words]
        described.append(DrawnLeaf(leaf, own, is_applied, ", ".join(filter(None, words))))
        if not isinstance(leaf, Temporal):
            size = leaf.result_size(own, size)
    return described


def _parameter(name: str, value: Any, size: NDArray[np.int64]) -> str:
    """Describe a parameter by its name and value; "" if it is hidden or has too many numbers."""
    # Parameters in a chain of AugMix have names such as "0.1.2.matrix".
    if name in _HIDDEN or "." in name:
        return ""
    if name == "matrix":
        return _warp(value, size) if value.shape == (3, 3) else _colours(value)
    if name == "speed":
        return f"{value / SPEED_UNIT:.2f} times as fast"
    if value.dtype == bool:
        return _TEXTS.get(name, name) if value.ndim == 0 and value else ""
    numbers = value.ravel().tolist()
    if len(numbers) > _MOST_NUMBERS:
        return ""
    if name in _TEXTS:
        return _TEXTS[name].format(*numbers)
    return f"{name.replace('_', ' ')} {_join(numbers)}"


def _join(numbers: Sequence[float]) -> str:
    return ", ".join(str(one) if isinstance(one, int) else f"{one:.3g}" for one in numbers)


def _partners(
    leaf: Mixing, own: Params, partners: NDArray[np.int64], row: int, keys: Sequence[str]
) -> str:
    """Return a text with the shares of the mixed samples."""
    [sources], [shares] = leaf.sources(partners)[row : row + 1].tolist(), leaf.shares(own).tolist()
    names = ["it" if source == row else keys[source] if keys else "another" for source in sources]
    return ", ".join(
        f"{100 * share:.0f} % of {name}" for share, name in zip(shares, names, strict=True) if share
    )


def _warp(matrix: NDArray[np.float64], size: NDArray[np.int64]) -> str:
    """Describe how a matrix [3, 3] shears, scales, turns and moves a picture; see Warp.

    The described changes apply in this order, about the centre of a picture with height and width `size`.
    """
    if np.abs(matrix[2, :2]).max() > 1e-6:  # more than the rounding error of matrix products
        return "perspective"
    (a, b, _), (c, d, _), _ = matrix.tolist()
    area, across = a * d - b * c, math.hypot(a, c)
    if area == 0:
        return "flattened to a line"
    shear, turn = math.degrees(math.atan((a * b + c * d) / area)), math.degrees(math.atan2(c, a))
    center = np.array([(size[1] - 1) / 2, (size[0] - 1) / 2, 1])
    right, down, _ = (matrix @ center - center).tolist()
    words = []
    if abs(shear) > _SMALL:
        words.append(f"sheared across by {shear:+.1f}°")
    if max(abs(across - 1), abs(area / across - 1)) > _SMALL:
        words.append(f"scaled x{across:.2f} across, x{area / across:.2f} down")
    if abs(turn) > _SMALL:  # clockwise, because y points down
        words.append(f"turned {abs(turn):.1f}° {'clockwise' if turn > 0 else 'counter-clockwise'}")
    if max(abs(right), abs(down)) > 0.05:
        words.append(f"moved {right:+.1f} px right, {down:+.1f} px down")
    return ", ".join(words)


def _colours(matrix: NDArray[np.float64]) -> str:
    """Describe a colour matrix [3, 4] from (red, green, blue, 1) to red, green and blue; "" if it mixes channels."""
    factors = np.diag(matrix[:, :3])
    if (matrix[:, :3] != np.diag(factors)).any():
        return ""
    shifts = (255 * matrix[:, 3]).tolist()
    return f"RGB factors {_join(factors.tolist())}, shifts {_join(shifts)} of 255"
