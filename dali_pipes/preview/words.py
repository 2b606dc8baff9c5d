"""What was drawn for a sample, in words: which operations changed it, and by how much."""

from collections.abc import Sequence

from dali_pipes.preview.details import Size, corner_words, details, rectangle_words
from gpu_aug import Draws, Recipe
from gpu_aug.draw_operations import row_of
from gpu_aug.draws import Params
from gpu_aug.ops.foreign.foreign import Foreign
from gpu_aug.ops.mix import CutMix, Mixing, Mosaic
from gpu_aug.ops.operation import Operation
from gpu_aug.ops.temporal import SPEED_UNIT, FrameDrop, SpeedJitter, Temporal


def draw_words(recipe: Recipe, draws: Draws, row: int, keys: Sequence[str] = ()) -> list[str]:
    """Say what a recipe did to a sample, one text for each operation that changed it, in their order.

    What is alike for all samples, such as Normalize, is left out.

    Args:
        recipe: The recipe.
        draws: What was drawn, for this sample and others.
        row: The sample's.
        keys: Of all rows, which name those that it is mixed with.

    Returns:
        Texts such as "RandomResizedCrop: 45 x 59 px at top 6, left 4, to 64 x 64"; one that says that nothing was
        done where that is so.

    Example:
        >>> from dali_pipes.preview import draw_words
        >>> recipe = Recipe([RandomResizedCrop(32), HorizontalFlip(p=1.0), Normalize()])
        >>> drawn = recipe.draw(seed=0, epoch=0, indices=np.array([7]), sizes=np.array([[48, 64]]))
        >>> draw_words(recipe, drawn, 0)
        ['RandomResizedCrop: 16 x 18 px at top 32, left 20, to 32 x 32', 'HorizontalFlip']
    """
    told = [
        _named(operation, _of_time(operation, row_of(params, row)))
        for operation, params in zip(recipe.temporal_operations, draws.temporal, strict=True)
        if params["apply"][row]
    ]
    size = draws.sizes[row : row + 1]
    for leaf, params in zip(recipe.leaves, draws.decode_params + draws.params, strict=True):
        own = row_of(params, row)
        if own["apply"][0] and not (set(own) == {"apply"} and not leaf.num_uniforms):
            height, width = size[0].tolist()
            told.append(_named(leaf, leaf_words(leaf, own, draws, row, (height, width), keys)))
        size = leaf.result_size(own, size)
    return told or ["nothing is changed at random"]


def leaf_words(
    leaf: Operation, own: Params, draws: Draws, row: int, size: Size, keys: Sequence[str] = ()
) -> str:
    """Say what one operation of a recipe did to a sample, "" where its name says it all.

    Args:
        leaf: The operation, which changed it.
        own: What was drawn for it, first axis 1.
        draws: All that was drawn; so `row` and `keys`, see `draw_words`.
        row: The sample's.
        size: Height and width of the image as it reached the operation.
        keys: Of all rows.
    """
    if isinstance(leaf, Temporal):
        return _of_time(leaf, own)
    return _mixed(leaf, own, draws, row, keys) or details(leaf, own, size)


def _named(operation: Operation, words: str) -> str:
    title = operation.title if isinstance(operation, Foreign) else type(operation).__name__
    title = title.removeprefix("Policy") if words else title
    return f"{title}: {words}" if words else title


def _mixed(leaf: Operation, own: Params, draws: Draws, row: int, keys: Sequence[str]) -> str:
    """With which samples one is mixed, and how much of it is left; "" for what mixes nothing."""
    if not isinstance(leaf, Mixing):
        return ""
    [sources] = leaf.sources(draws.partners)[row : row + 1].tolist()
    [shares] = leaf.shares(own).tolist()
    parts = [
        f"{100 * share:.0f} % of {keys[source] if source < len(keys) else 'another sample'}"
        for source, share in zip(sources[1:], shares[1:], strict=True)
        if source != row and share > 0
    ]
    if not parts:
        return "it has no partner, and stays as it is"
    rectangle = f", {rectangle_words(own)}" if isinstance(leaf, CutMix) else ""
    corner = f", corner at {corner_words(own['start'][0])}" if isinstance(leaf, Mosaic) else ""
    return f"{100 * shares[0]:.0f} % of it, {', '.join(parts)}{rectangle}{corner}"


def _of_time(operation: Operation, own: Params) -> str:
    if isinstance(operation, SpeedJitter):
        return f"{own['speed'][0] / SPEED_UNIT:.2f} times as fast"
    return "lost frames are held" if isinstance(operation, FrameDrop) else ""
