"""Moving the boxes, keypoints and masks of a batch by a recipe's draws; all engines share it."""

from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_aug.draws import Draws
from gpu_aug.errors import RecipeError, TargetsError
from gpu_aug.ops.combine import Combinator, RandomApply
from gpu_aug.ops.foreign.foreign import Foreign
from gpu_aug.ops.geometric.spatial import Spatial
from gpu_aug.ops.imported.dropout import RandomGridShuffle
from gpu_aug.ops.mix import CutMix, Mixing, MixUp, Mosaic
from gpu_aug.ops.operation import Operation
from gpu_aug.recipe import Recipe
from gpu_aug.targets import boxes as box_math
from gpu_aug.targets import masks as mask_math
from gpu_aug.targets.flip_pairs import check_labels, is_permutation
from gpu_aug.targets.mixed import mix
from gpu_aug.targets.move_one import Moved, move, moves_targets
from gpu_aug.targets.targets import KINDS, BoxParams, KeypointParams, Targets

# Of recipes that give none; made once, as their checks take longer than moving the boxes of an image.
_USUAL_BOXES, _USUAL_KEYPOINTS = BoxParams(), KeypointParams()


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
    sizes = draws.sizes
    separate = separate_masks or [False] * len(targets)
    batch = [
        _enter(recipe, one, _size(sizes, row), row, is_separate=separate[row])
        for row, one in enumerate(targets)
    ]
    drawn = draws.decode_params + draws.params
    first = _num_before_check(recipe.operations[0])
    for number, (leaf, params) in enumerate(zip(recipe.leaves, drawn, strict=True)):
        sizes = leaf.result_size(params, sizes)
        for row, one in enumerate(batch):
            one.size, one.after = one.after, _size(sizes, row)
        if isinstance(leaf, Mixing):
            batch = mix(leaf, params, draws.partners, batch)
            moved = np.flatnonzero(leaf.mixed(params, draws.partners))
        else:
            moved = np.flatnonzero(params["apply"] & moves_targets(leaf))
            for row in moved.tolist():
                move(leaf, batch[row], params, row)
        # Albumentations checks after every step; after the first one a step that moves nothing drops nothing.
        _check(batch, range(len(batch)) if number + 1 == first else moved.tolist())
    _check(batch, range(len(batch)), at_end=True)
    return [_leave(one) for one in batch]


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


def check_targets(recipe: Recipe, targets: Targets, size: tuple[int, int]) -> None:
    """Check that the targets of one image are valid for a recipe.

    Args:
        recipe: One recipe.
        targets: Targets, with boxes in the format of ``recipe.boxes``.
        size: Height and width of the source image.

    Raises:
        TargetsError: The targets do not fit the image, or are invalid.
    """
    _enter(recipe, targets, size, None)


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
                tight = mask_math.tight_boxes(one.masks)
            one.boxes, kept = box_math.keep(boxes, one.box_params, one.after, tight)
            one.keep_boxes(kept)
        params = one.keypoint_params
        if keypoints is not None and params.remove_invisible and params.check_each != at_end:
            one.keep_keypoints(box_math.inside(keypoints, one.after))


def _enter(
    recipe: Recipe,
    targets: Targets,
    size: tuple[int, int],
    row: int | None,
    *,
    is_separate: bool = False,
) -> Moved:
    """Check targets against their image, and return them with boxes as corners in pixels."""
    params = recipe.boxes or _USUAL_BOXES
    num_masks = 0 if targets.masks is None else len(targets.masks)
    counts_agree = targets.boxes is not None and len(targets.boxes) == num_masks
    paired = is_separate and counts_agree and recipe.masks is None and not params.instance_masks
    points = recipe.keypoints or _USUAL_KEYPOINTS
    one = Moved(
        targets.boxes,
        targets.box_labels,
        targets.keypoints,
        targets.keypoint_labels,
        targets.masks,
        size,
        size,
        params,
        points,
        recipe.masks,
        paired,
    )
    where = "" if row is None else f"sample {row}: "
    _check_masks(one, where, num_masks, counts_agree=counts_agree)
    _check_sides(one, where, per_box=params.instance_masks or (is_separate and counts_agree))
    if one.boxes is not None:
        one.boxes = box_math.to_xyxy(one.boxes, params, size)
        _check_boxes(one, where)
    return one


def _check_boxes(one: Moved, where: str) -> None:
    """Clip, drop or refuse invalid boxes, as BoxParams says.

    Raises:
        TargetsError: A box is outside the image or has no area, and may not be clipped or dropped.
    """
    assert one.boxes is not None
    params, given = one.box_params, one.boxes
    clipped = box_math.clip(given, one.size)
    # The allowance is Albumentations': rounding of normalized coordinates in float32.
    outside = (np.abs(clipped - given) > 1e-5 * max(one.size)).any(axis=1)
    if params.clip:
        one.boxes = clipped
    elif outside.any() and not params.keep_empty:
        row = int(outside.argmax())
        raise TargetsError(
            f"{where}boxes must lie in the image, {one.size[0]}x{one.size[1]}, got (left, top, right, "
            f"bottom) = {given[row].round(3).tolist()} in row {row}: correct format="
            f"{params.format!r}, normalized={params.normalized}, or use BoxParams(clip=True), which cuts off "
            "what lies outside"
        )
    solid = box_math.areas(one.boxes) >= 1e-7
    if params.filter_invalid:
        one.keep_boxes(solid)
    elif not solid.all() and not params.keep_empty:
        row = int((~solid).argmax())
        raise TargetsError(
            f"{where}boxes must have right > left and bottom > top, got "
            f"{one.boxes[row].round(3).tolist()} in row {row}: correct format={params.format!r}, "
            "or use BoxParams(filter_invalid=True), which drops them"
        )


def _check_masks(one: Moved, where: str, num_masks: int, *, counts_agree: bool) -> None:
    """Raise a TargetsError if masks have another size than the image, or are not one per box as BoxParams says."""
    if one.masks is not None and one.masks.shape[1:] != one.size:
        raise TargetsError(
            f"{where}masks must be as large as the image, {one.size[0]}x{one.size[1]}, got "
            f"{one.masks.shape[1]}x{one.masks.shape[2]}: give masks of the source image"
        )
    computes_boxes = one.box_params.boxes_from_masks and one.boxes is not None
    needs_masks = one.masks is not None or computes_boxes
    if one.box_params.instance_masks and needs_masks and not counts_agree:
        raise TargetsError(
            f"{where}masks must be one per box with instance_masks=True, got {num_masks} "
            f"masks and {'no' if one.boxes is None else len(one.boxes)} boxes: make them match"
        )


def _check_sides(one: Moved, where: str, *, per_box: bool) -> None:
    """Check that labels can be exchanged as ``flip_pairs`` of the parameters say.

    Args:
        one: The targets of an image.
        where: Name of the sample, for errors.
        per_box: Whether there is a mask for each box.

    Raises:
        RecipeError: The pairs are those of class names, which are not known here.
        TargetsError: Labels are missing or of another kind, or keypoints without labels are not those of full objects.
    """
    of_masks: Any = one.mask_params and one.mask_params.flip_pairs
    if "names" in (one.box_params.flip_pairs, of_masks):
        raise RecipeError(
            "flip_pairs='names' needs the class names of a dataset, which only a Loader has: give pairs of labels, such as "
            "flip_pairs=[(0, 1)]"
        )
    if one.boxes is not None:
        check_labels(one.box_labels, one.box_params.flip_pairs, f"{where}box_labels")
    if one.masks is not None and of_masks:
        check_labels(one.masks, of_masks, f"{where}masks", "[M, H, W]")
        if per_box and 0 in chain.from_iterable(of_masks):
            raise TargetsError(
                f"{where}masks must be 0 outside of their objects if there is one per box, and flip_pairs of MaskParams "
                "exchanges class 0: give flip_pairs to BoxParams, which exchanges box_labels"
            )
    pairs: Any = one.keypoint_params.flip_pairs
    if one.keypoints is not None and (one.keypoint_labels is not None or not is_permutation(pairs)):
        check_labels(one.keypoint_labels, pairs, f"{where}keypoint_labels")
    elif one.keypoints is not None and (
        len(one.keypoints) % len(pairs) or one.keypoint_params.remove_invisible
    ):
        raise TargetsError(
            f"{where}keypoints without labels must be all {len(pairs)} of each object, as many as flip_pairs has numbers, "
            f"with remove_invisible=False, got {len(one.keypoints)} and {one.keypoint_params.remove_invisible}: give "
            "keypoint_labels, or all keypoints of each object and KeypointParams(remove_invisible=False)"
        )


def _leave(one: Moved) -> Targets:
    boxes, points = one.boxes, one.keypoints
    return Targets(
        None if boxes is None else box_math.from_xyxy(boxes, one.box_params, one.after),
        one.box_labels,
        points,
        one.keypoint_labels,
        # A copy: ascontiguousarray leaves the negative strides of axes of length 1, which torch refuses.
        None if one.masks is None else np.array(one.masks, order="C"),
    )
