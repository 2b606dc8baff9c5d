"""Moving the targets of one image, for each family of operations; all engines share it."""

import warnings
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gpu_aug.draw_operations import row_of
from gpu_aug.draws import Params
from gpu_aug.errors import TargetsError
from gpu_aug.ops.boxes import ClampBoundingBoxes, SanitizeBoundingBoxes
from gpu_aug.ops.dropout.erase import Holes
from gpu_aug.ops.geometric.iou_crop import RandomIoUCrop
from gpu_aug.ops.geometric.spatial import Crop, Moving, Remap, Reorient, Resample
from gpu_aug.ops.imported.dropout import RandomGridShuffle
from gpu_aug.ops.operation import Operation
from gpu_aug.targets import boxes as box_math
from gpu_aug.targets import masks as mask_math
from gpu_aug.targets.flip_pairs import exchange, is_permutation
from gpu_aug.targets.oriented import OrientedBoxes
from gpu_aug.targets.targets import BoxParams, KeypointParams, MaskParams

_CPU = torch.device("cpu")  # all targets are moved on the host


@dataclass(slots=True)
class Moved:
    """The targets of one image while a recipe moves them.

    Attributes:
        boxes: Axis-aligned boxes as corners in pixels, [N, 4], or oriented ones.
        size: Height and width of the image before the current operation.
        after: Height and width of the image after the current operation.
        paired_by_count: Whether masks count as those of the boxes only because there are as many.
    """

    boxes: NDArray[np.float64] | OrientedBoxes | None
    box_labels: NDArray[Any] | None
    keypoints: NDArray[np.float64] | None
    keypoint_labels: NDArray[Any] | None
    masks: NDArray[Any] | None
    size: tuple[int, int]
    after: tuple[int, int]
    box_params: BoxParams
    keypoint_params: KeypointParams
    mask_params: MaskParams | None = None
    paired_by_count: bool = False

    @property
    def has_mask_per_box(self) -> bool:
        """Whether each mask belongs to the box of its index."""
        return self.box_params.instance_masks or self.paired_by_count

    def keep_boxes(self, kept: NDArray[np.bool_]) -> None:
        """Keep only the boxes of the mask ``kept``, bool [N], their labels and, if there is one per box, their masks."""
        if self.boxes is None or kept.all():
            return
        if self.masks is not None and self.has_mask_per_box:
            self.masks = self.masks[kept]
            if self.paired_by_count:
                _warn_of_pairing()
        self.boxes = self.boxes[kept]
        if self.box_labels is not None:
            self.box_labels = self.box_labels[kept]

    def keep_keypoints(self, kept: NDArray[np.bool_]) -> None:
        """Keep only the keypoints of the mask ``kept``, bool [K], and their labels."""
        if self.keypoints is None or kept.all():
            return
        self.keypoints = self.keypoints[kept]
        if self.keypoint_labels is not None:
            self.keypoint_labels = self.keypoint_labels[kept]


@singledispatch
def move(operation: Operation, one: Moved, params: Params, row: int) -> None:
    """Move the targets of one image in place; families of operations register their functions here.

    Args:
        operation: The operation that was applied to the image.
        one: The targets of the image.
        params: Drawn parameters of the batch.
        row: The image's row in the batch; its gate is open.
    """


def moves_targets(leaf: Operation) -> bool:
    """Return whether an operation that does not mix images can change targets at all."""
    return move.dispatch(type(leaf)) is not move.dispatch(Operation)


@move.register
def _(operation: Moving, one: Moved, params: Params, row: int) -> None:
    matrix = _matrix(operation, one, params, row)
    follow_matrix(one, matrix, to_continuous=0.5 * (one.keypoint_params.pixel_index is True))
    if one.masks is not None:
        fill = _fill(one, operation)
        one.masks = mask_math.warp(one.masks, matrix, one.after, operation.padding_mode, fill)


@move.register
def _(operation: Reorient, one: Moved, params: Params, row: int) -> None:
    _follow(operation, one, params, row, to_continuous=0.5 * bool(one.keypoint_params.pixel_index))
    if one.masks is not None:
        names = ("transpose", "top_bottom", "left_right")
        one.masks = mask_math.reorient(one.masks, *(bool(params[name][row]) for name in names))


@move.register
def _(operation: Crop, one: Moved, params: Params, row: int) -> None:
    _follow(operation, one, params, row)
    if one.masks is not None:
        start, shape = params["start"][row], params["shape"][row]
        fill = _fill(one, operation)
        one.masks = mask_math.cut(one.masks, start, shape, operation.padding_mode, fill)


@move.register
def _(operation: RandomIoUCrop, one: Moved, params: Params, row: int) -> None:
    start, shape = params["start"][row, ::-1], params["shape"][row, ::-1]  # (x, y)
    corners = np.empty((0, 4)) if one.boxes is None else box_math.around(one.boxes)
    centers = (corners[:, :2] + corners[:, 2:]) / 2
    outside = np.asarray(~((centers > start) & (centers < start + shape)).all(axis=1))
    move.dispatch(Crop)(operation, one, params, row)
    if one.boxes is not None:
        # Without area, as in torchvision; BoxParams says what becomes of such boxes.
        one.boxes = box_math.emptied(one.boxes, outside)


@move.register
def _(operation: Resample, one: Moved, params: Params, row: int) -> None:
    _follow(operation, one, params, row)  # of pixel indices too: (0, 0) stays (0, 0)
    if one.masks is not None:
        start, shape, resize = (params[name][row] for name in ("start", "shape", "resize"))
        fill = _fill(one, operation)
        floor = getattr(operation, "mask_interpolation", "nearest") == "nearest_floor"
        one.masks = mask_math.resample(
            one.masks, start, shape, resize, operation.padding_mode, fill, floor=floor
        )


@move.register
def _(operation: Remap, one: Moved, params: Params, row: int) -> None:
    field = operation.displacement(row_of(params, row), one.size, _CPU)[0].numpy()
    if one.boxes is not None:
        one.boxes = box_math.move_boxes_along(one.boxes, field)
    if one.keypoints is not None:
        to_continuous = 0.5 * (one.keypoint_params.pixel_index is True)
        moved = box_math.move_points_along(one.keypoints + to_continuous, field)
        one.keypoints = moved - to_continuous
    if one.masks is not None:
        fill = _fill(one, operation)
        one.masks = mask_math.remap(one.masks, field, operation.padding_mode, fill)


@move.register
def _(operation: Holes, one: Moved, params: Params, row: int) -> None:
    holes = params["holes"][row]
    hidden = mask_math.hidden_by(holes, one.size)
    if one.masks is not None and operation.fill_mask is not None:
        painted = one.masks.copy()
        painted[:, hidden] = _fill(one, operation)
        one.masks = painted
    if one.boxes is not None and one.box_params.shrink_in_holes and hidden.any():
        one.boxes, kept = box_math.shrink_in_holes(one.boxes, hidden, one.box_params)
        one.keep_boxes(kept)
    points = one.keypoint_params
    if one.keypoints is not None and points.drop_in_holes and points.remove_invisible:
        one.keep_keypoints(~box_math.in_holes(one.keypoints, holes))


@move.register
def _(_operation: RandomGridShuffle, one: Moved, params: Params, row: int) -> None:
    tiles, sources = params["tiles"][row], params["sources"][row]
    if one.masks is not None:
        one.masks = mask_math.shuffle(one.masks, tiles, sources)
    if one.keypoints is not None:
        one.keypoints = box_math.shuffle_points(one.keypoints, tiles, sources)


@move.register
def _(_operation: ClampBoundingBoxes, one: Moved, _params: Params, _row: int) -> None:
    if one.boxes is not None:
        one.boxes = box_math.clip(one.boxes, one.size)


@move.register
def _(operation: SanitizeBoundingBoxes, one: Moved, _params: Params, _row: int) -> None:
    if one.boxes is None:
        return
    sides = box_math.sides(one.boxes)
    kept = (sides >= operation.min_size).all(axis=1)
    kept &= ~box_math.reaches_outside(one.boxes, one.size)
    kept &= sides.prod(axis=1) >= operation.min_area
    one.keep_boxes(kept)


def _matrix(operation: Moving, one: Moved, params: Params, row: int) -> NDArray[np.float64]:
    matrix: NDArray[np.float64] = operation.forward(row_of(params, row), np.array([one.size]))[0]
    return matrix


def _follow(
    operation: Moving, one: Moved, params: Params, row: int, *, to_continuous: float = 0.0
) -> None:
    """Move boxes and keypoints, in place, by the matrix of an operation, which is computed only if there are some."""
    if one.boxes is not None or one.keypoints is not None or one.mask_params is not None:
        matrix = _matrix(operation, one, params, row)
        follow_matrix(one, matrix, to_continuous=to_continuous)


def follow_matrix(one: Moved, matrix: NDArray[np.float64], *, to_continuous: float = 0.0) -> None:
    """Move boxes and keypoints by a matrix, in place; if it mirrors, labels of left and right are exchanged.

    ``to_continuous`` is added to keypoints before the move and subtracted afterwards.
    """
    if one.boxes is not None:
        one.boxes = box_math.move_boxes(one.boxes, matrix)
    if one.keypoints is not None:
        one.keypoints = box_math.move_points(one.keypoints + to_continuous, matrix) - to_continuous
    # Points in front of a horizon have positive weights, so that the sign says on which side of the image they are seen.
    has_sides = one.keypoints is not None or one.box_params.flip_pairs or one.mask_params
    if has_sides and np.linalg.det(matrix) < 0:
        _exchange_sides(one)


def _exchange_sides(one: Moved) -> None:
    """Exchange the labels of left and right, in place; masks before they are moved, so that new borders keep their value."""
    if one.box_labels is not None:
        one.box_labels = exchange(one.box_labels, one.box_params.flip_pairs)
    if one.masks is not None and one.mask_params is not None:
        one.masks = exchange(one.masks, one.mask_params.flip_pairs)
    if one.keypoints is None or not len(one.keypoints):
        return
    pairs: Any = one.keypoint_params.flip_pairs
    if pairs is None:
        _warn_of_sides()
    elif one.keypoint_labels is not None:
        one.keypoint_labels = exchange(one.keypoint_labels, pairs)
    elif is_permutation(pairs):
        objects = one.keypoints.reshape(-1, len(pairs), 2)
        one.keypoints = objects[:, pairs].reshape(-1, 2)


def _warn_of_pairing() -> None:
    """Warn of a decision that only the user can make; Python shows the warning once."""
    warnings.warn(
        "masks are dropped with their boxes, as a sample has as many masks as boxes: say BoxParams(instance_masks=True) if each "
        "mask belongs to a box, or Recipe(..., masks=MaskParams()) if masks hold classes, which keeps all of them",
        UserWarning,
        stacklevel=2,
    )


def _warn_of_sides() -> None:
    """Warn of keypoints whose names may be wrong; Python shows the warning once."""
    warnings.warn(
        "an image with keypoints was mirrored, and their labels stay, so that those of a left eye now stand at a right one: give "
        "the labels to exchange, KeypointParams(flip_pairs=[(1, 2), ...]), or flip_pairs=() if no keypoint has a side; a Loader "
        "also takes them from flip_idx in data.yaml (YOLO), or from names of keypoints such as left_eye and right_eye (COCO)",
        UserWarning,
        stacklevel=2,
    )


def _fill(one: Moved, operation: Any) -> Any:
    """Return the value of masks outside the image; NaN for maps of floating-point numbers.

    Raises:
        TargetsError: The value does not fit the dtype of the masks.
    """
    assert one.masks is not None
    if one.masks.dtype.kind == "f":
        return np.nan
    dtype, fill = one.masks.dtype, int(operation.fill_mask)
    low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    if not low <= fill <= high:
        raise TargetsError(
            f"masks must hold fill_mask={fill} of {type(operation).__name__}, got {dtype}: "
            "use masks.astype('int64'), or change fill_mask"
        )
    return fill
