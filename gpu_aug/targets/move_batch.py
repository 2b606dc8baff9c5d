"""Moving the boxes, keypoints and masks of a batch by a recipe's draws; all engines share it."""

import warnings
from collections.abc import Collection, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from gpu_aug.draws import Draws, Params
from gpu_aug.errors import RecipeError, TargetsError
from gpu_aug.ops.combine import Combinator, RandomApply
from gpu_aug.ops.foreign.foreign import Foreign
from gpu_aug.ops.geometric.spatial import Spatial
from gpu_aug.ops.imported.dropout import RandomGridShuffle
from gpu_aug.ops.mix import CutMix, Mixing, MixUp, Mosaic
from gpu_aug.ops.operation import Operation
from gpu_aug.recipe import Recipe
from gpu_aug.targets import boxes as box_math
from gpu_aug.targets.boxes import AnyBoxes
from gpu_aug.targets.enter_recipe import enter, leave
from gpu_aug.targets.mixed import mix
from gpu_aug.targets.move_one import Moved, move, moves_targets
from gpu_aug.targets.oriented import OrientedBoxes, is_deformed
from gpu_aug.targets.targets import KINDS, Targets


def move_batch(
    recipe: Recipe,
    draws: Draws,
    targets: Sequence[Targets],
    *,
    separate_masks: Sequence[bool] | None = None,
) -> list[Targets]:
    """Return the targets of the images that ``recipe`` makes with ``draws``.

    All operations move the targets, in order. After each of them boxes are clipped and dropped as ``recipe.boxes`` says, and
    keypoints are dropped as ``recipe.keypoints`` says.

    Args:
        recipe: One recipe; the targets of Views are moved for each view separately.
        draws: Draws of B samples that ``recipe.draw`` returned.
        targets: Targets of the B samples, with boxes in the format of ``recipe.boxes``; not written to.
        separate_masks: For each sample, whether its masks are separate ones, which belong to the boxes if there are as many;
            see BoxParams.instance_masks. None means no.

    Raises:
        RecipeError: An operation cannot move such targets; the error names it.
        TargetsError: Targets do not fit their image, or cannot be mixed; the error names the row.

    Example:
        >>> recipe = Recipe([CenterCrop(32)])
        >>> draws = recipe.draw(0, 0, np.arange(1), np.array([[48, 64]]))
        >>> [moved] = move_batch(recipe, draws, [Targets(keypoints=[[32, 24]])])
        >>> moved.keypoints
        array([[16., 16.]])
    """
    if len(targets) != len(draws):
        raise TargetsError(f"targets must be one per sample ({len(draws)}), got {len(targets)}")
    check_recipe(
        recipe, {kind for one in targets for kind in KINDS if getattr(one, kind) is not None}
    )
    if not any(targets):
        return list(targets)
    separate = separate_masks or [False] * len(targets)
    batch = [
        enter(recipe, one, _size(draws.sizes, row), row, is_separate=separate[row])
        for row, one in enumerate(targets)
    ]
    drawn = draws.decode_params + draws.params
    batch = move_through(recipe, drawn, draws.sizes, draws.partners, batch)
    _check(batch, range(len(batch)), at_end=True)
    return [leave(one) for one in batch]


def move_through(
    recipe: Recipe,
    drawn: Sequence[Params],
    sizes: NDArray[np.int64],
    partners: NDArray[np.int64],
    batch: list[Moved],
) -> list[Moved]:
    """Return the targets of a batch after the first leaves of a recipe: as many as there are drawn parameters.

    Args:
        recipe: The recipe.
        drawn: Parameters of the first leaves.
        sizes: Height and width of the source images, int64 [B, 2].
        partners: Rows that each row may be mixed with; see Draws.
        batch: Targets of the B samples, which `gpu_aug.targets.enter_recipe.enter` returned; they are changed.

    Raises:
        TargetsError: Targets cannot be mixed; the error names the row.
    """
    first = _num_before_check(recipe.operations[0])
    for number, (leaf, params) in enumerate(zip(recipe.leaves, drawn, strict=False)):
        sizes = leaf.result_size(params, sizes)
        for row, one in enumerate(batch):
            one.size, one.after = one.after, _size(sizes, row)
        if isinstance(leaf, Mixing):
            batch = mix(leaf, params, partners, batch)
            moved = np.flatnonzero(leaf.mixed(params, partners))
        else:
            moved = np.flatnonzero(params["apply"] & moves_targets(leaf))
            for row in moved.tolist():
                before = batch[row].boxes
                move(leaf, batch[row], params, row)
                if isinstance(before, OrientedBoxes):
                    _warn_of_deformed(leaf, before, batch[row].boxes)
        # Albumentations checks after every step; after the first one a step that moves nothing drops nothing.
        _check(batch, range(len(batch)) if number + 1 == first else moved.tolist())
    return batch


def check_recipe(recipe: Recipe, kinds: Collection[str]) -> None:
    """Check that a recipe can move these kinds of targets.

    Args:
        recipe: One recipe.
        kinds: Kinds of targets, some of KINDS.

    Raises:
        RecipeError: An operation cannot move one of them; the error names it, the reason and a way out.
    """
    for leaf in recipe.leaves:
        if kinds and isinstance(leaf, Foreign):
            leaf.check_targets()
        for kind in KINDS:
            reason = _refusal(leaf, kind) if kind in kinds else None
            if reason:
                raise RecipeError(
                    f"{type(leaf).__name__} cannot be done with {kind}: {reason}: take it out of "
                    f"the recipe, or leave out {kind}"
                )


def check_targets(
    recipe: Recipe, targets: Targets, size: tuple[int, int], *, only_boxes: bool = False
) -> None:
    """Check that the targets of one image are valid for a recipe.

    Args:
        recipe: One recipe.
        targets: Targets, with boxes in the format of ``recipe.boxes``.
        size: Height and width of the source image.
        only_boxes: Whether only the positions of boxes matter; see `gpu_aug.targets.enter_recipe.enter`.

    Raises:
        TargetsError: The targets do not fit the image, or are invalid.
    """
    enter(recipe, targets, size, None, only_boxes=only_boxes)


def _refusal(leaf: Operation, kind: str) -> str | None:
    """Return why an operation cannot move a kind of targets, or None if it can."""
    if isinstance(leaf, MixUp) and kind == "masks":
        return "two masks of whole numbers have no blend"
    if isinstance(leaf, RandomGridShuffle) and kind == "boxes":
        return "tiles may tear them apart"
    if isinstance(leaf, CutMix) and kind != "masks":
        return f"{kind} of a pasted rectangle's surroundings have no meaning"
    if leaf.group > 1 and not isinstance(leaf, MixUp | CutMix | Mosaic):
        return "how it mixes them is not known"
    if isinstance(leaf, Spatial) and not moves_targets(leaf):
        return "how it moves them is not known"
    return None


def _size(sizes: NDArray[np.int64], row: int) -> tuple[int, int]:
    return int(sizes[row, 0]), int(sizes[row, 1])


def _num_before_check(operation: Operation) -> int:
    """Return the number of leaves of the first step, after which all targets are checked, whether they moved or not.

    A combinator is one step, so targets are checked after the last of its alternatives.
    """
    if isinstance(operation, RandomApply):
        return _num_before_check(operation.operations[0])
    return len(operation.leaves) if isinstance(operation, Combinator) else 1


def _check(batch: list[Moved], rows: Iterable[int], *, at_end: bool = False) -> None:
    for row in rows:
        one = batch[row]
        boxes, keypoints = one.boxes, one.keypoints
        # ``check_each`` says whether this is the time to check: after each operation or once at the end.
        if boxes is not None and one.box_params.check_each != at_end:
            tight = None
            if one.box_params.boxes_from_masks and one.masks is not None:
                tight = box_math.around_masks(boxes, one.masks)
            one.boxes, kept = box_math.keep(boxes, one.box_params, one.after, tight)
            one.keep_boxes(kept)
        params = one.keypoint_params
        if keypoints is not None and params.remove_invisible and params.check_each != at_end:
            one.keep_keypoints(box_math.inside(keypoints, one.after))


def _warn_of_deformed(leaf: Operation, before: OrientedBoxes, after: AnyBoxes | None) -> None:
    """Warn if an operation deforms oriented boxes; Python shows the warning once for each class of operation."""
    if isinstance(after, OrientedBoxes) and is_deformed(after) and not is_deformed(before):
        warnings.warn(
            f"{type(leaf).__name__} makes oriented boxes no rectangles, as a shear, a perspective, a distortion or another scale "
            "in one direction does: each such box becomes the rectangle of least area around it",
            UserWarning,
            stacklevel=3,
        )
