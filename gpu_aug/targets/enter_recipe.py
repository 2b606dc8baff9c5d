"""Checks of the targets of an image, and their conversion to and from the form in which a recipe moves them."""

from itertools import chain
from typing import Any

import numpy as np

from gpu_aug.errors import RecipeError, TargetsError
from gpu_aug.recipe import Recipe
from gpu_aug.targets import boxes as box_math
from gpu_aug.targets.box_formats import from_moving, to_moving
from gpu_aug.targets.boxes import AnyBoxes
from gpu_aug.targets.flip_pairs import check_labels, is_permutation
from gpu_aug.targets.move_one import Moved
from gpu_aug.targets.oriented import OrientedBoxes
from gpu_aug.targets.targets import BoxParams, KeypointParams, Targets

# Of recipes that give none; made once, as their checks take longer than moving the boxes of an image.
_USUAL_BOXES, _USUAL_KEYPOINTS = BoxParams(), KeypointParams()


def enter(
    recipe: Recipe,
    targets: Targets,
    size: tuple[int, int],
    row: int | None,
    *,
    is_separate: bool = False,
    only_boxes: bool = False,
) -> Moved:
    """Check targets against their image, and return them in the form that operations move.

    Args:
        recipe: One recipe.
        targets: Targets of one image.
        size: Height and width of the image.
        row: Index of the image in its batch, for errors.
        is_separate: Whether the masks are separate ones, which belong to the boxes if there are as many.
        only_boxes: Whether ``targets`` has boxes alone, because only their positions matter: masks and labels are not required.

    Raises:
        RecipeError: Labels cannot be exchanged as the recipe says.
        TargetsError: The targets do not fit the image, or are invalid.
    """
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
    if not only_boxes:
        _check_masks(one, where, num_masks, counts_agree=counts_agree)
        _check_sides(one, where, per_box=params.instance_masks or (is_separate and counts_agree))
    if targets.boxes is not None:
        try:
            one.boxes = to_moving(targets.boxes, params, size)
        except TargetsError as error:
            raise TargetsError(f"{where}{error}") from error
        _check_boxes(one, where)
    return one


def _check_boxes(one: Moved, where: str) -> None:
    """Clip, drop or refuse invalid boxes, as BoxParams says.

    Raises:
        TargetsError: A box is outside the image or has no area, and may not be clipped or dropped.
    """
    assert one.boxes is not None
    params, given = one.box_params, one.boxes
    if params.clip:
        one.boxes = box_math.clip(given, one.size)
    elif not params.keep_empty:
        # The allowance is Albumentations': rounding of normalized coordinates in float32.
        outside = box_math.lies_outside(given, one.size, 1e-5 * max(one.size))
        if outside.any():
            row = int(outside.argmax())
            part = "the centres of oriented boxes" if params.is_oriented else "boxes"
            raise TargetsError(
                f"{where}{part} must lie in the image, {one.size[0]}x{one.size[1]}, got {_numbers(given, row)} in row "
                f"{row}: correct format={params.format!r}, normalized={params.normalized}, or use BoxParams(clip=True), which "
                "cuts off what lies outside"
            )
    solid = box_math.areas(one.boxes) >= 1e-7
    if params.filter_invalid:
        one.keep_boxes(solid)
    elif not solid.all() and not params.keep_empty:
        row = int((~solid).argmax())
        needed = "an area in the image" if params.is_oriented else "right > left and bottom > top"
        raise TargetsError(
            f"{where}boxes must have {needed}, got {_numbers(one.boxes, row)} in row {row}: correct format="
            f"{params.format!r}, or use BoxParams(filter_invalid=True), which drops them"
        )


def _numbers(boxes: AnyBoxes, row: int) -> str:
    """Return the numbers of a box for an error."""
    if isinstance(boxes, OrientedBoxes):
        return f"the corners {boxes.corners[row].round(3).tolist()}"
    return f"(left, top, right, bottom) = {boxes[row].round(3).tolist()}"


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


def leave(one: Moved) -> Targets:
    """Return moved targets, with boxes in the recipe's format."""
    boxes, points = one.boxes, one.keypoints
    return Targets(
        None if boxes is None else from_moving(boxes, one.box_params, one.after),
        one.box_labels,
        points,
        one.keypoint_labels,
        # A copy: ascontiguousarray leaves the negative strides of axes of length 1, which torch refuses.
        None if one.masks is None else np.array(one.masks, order="C"),
    )
