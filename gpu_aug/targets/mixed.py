"""Targets of mixed images: boxes and keypoints of all visible images, and masks mixed like the images."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_aug.draw_operations import row_of
from gpu_aug.draws import Params
from gpu_aug.errors import TargetsError
from gpu_aug.ops.mix import CutMix, Mixing, Mosaic
from gpu_aug.targets import boxes as box_math
from gpu_aug.targets import masks as mask_math
from gpu_aug.targets.move_one import Moved, follow_matrix
from gpu_aug.targets.oriented import OrientedBoxes, joined
from gpu_aug.targets.targets import KINDS


def mix(
    operation: Mixing, params: Params, partners: NDArray[np.int64], batch: list[Moved]
) -> list[Moved]:
    """Return the targets of a batch after a mixing operation.

    Args:
        operation: The mixing operation.
        params: Drawn parameters of the batch.
        partners: Rows of the neighbouring images, int64 [B, 4]; see Draws.
        batch: The targets before the operation.

    Raises:
        TargetsError: One sample has targets that its partner lacks.
    """
    sources = operation.sources(partners)
    mixed = list(batch)
    for row in np.flatnonzero(operation.mixed(params, partners)).tolist():
        members = _with_empty_masks([batch[source] for source in sources[row]])
        _check_alike(operation, members, row)
        if isinstance(operation, Mosaic):
            mixed[row] = _tile(operation.offsets(row_of(params, row))[0], members)
        elif isinstance(operation, CutMix):
            mixed[row] = _paste(params["start"][row], params["shape"][row], *members)
        else:
            mixed[row] = _joined(members)
    return mixed


def _with_empty_masks(members: list[Moved]) -> list[Moved]:
    """Return images of which those without boxes have 0 masks, where the masks of the others are those of their boxes."""
    masks = next((member.masks for member in members if member.masks is not None), None)
    if masks is None or not all(member.has_mask_per_box for member in members):
        return members
    return [
        replace(member, masks=np.empty((0, *member.size), masks.dtype))
        if member.masks is None and member.boxes is not None and not len(member.boxes)
        else member
        for member in members
    ]


def _check_alike(operation: Mixing, members: list[Moved], row: int) -> None:
    """Raise a TargetsError if one of the images has a kind of targets that another lacks."""
    for name in (*KINDS, "box_labels", "keypoint_labels"):
        there = [getattr(member, name) is not None for member in members]
        if any(there) != all(there):
            raise TargetsError(
                f"sample {row}: {type(operation).__name__} needs {name} of all samples or of none, "
                f"got {sum(there)} of {len(there)}: give empty ones where there is nothing"
            )
    masks = [member.masks for member in members if member.masks is not None]
    per_box = all(member.has_mask_per_box for member in members)
    if len({len(mask) for mask in masks}) > 1 and not per_box:
        raise TargetsError(
            f"sample {row}: {type(operation).__name__} needs as many masks in all samples, got "
            f"{[len(mask) for mask in masks]}: if there is one per box, say so with "
            "BoxParams(instance_masks=True)"
        )


def _joined(members: list[Moved]) -> Moved:
    """Return the boxes and keypoints of all images together, with their labels.

    Masks count as those of the boxes only if they do in all images.
    """
    names = ("boxes", "box_labels", "keypoints", "keypoint_labels")
    joined: dict[str, Any] = {
        name: _concatenated([getattr(member, name) for member in members])
        for name in names
        if getattr(members[0], name) is not None
    }
    paired = all(member.paired_by_count for member in members)
    return replace(members[0], paired_by_count=paired, **joined)


def _concatenated(parts: list[Any]) -> Any:
    return joined(parts) if isinstance(parts[0], OrientedBoxes) else np.concatenate(parts)


def _tile(offsets: NDArray[np.int64], members: list[Moved]) -> Moved:
    """Return the targets of images that are placed side by side and seen through the window; see Mosaic.offsets."""
    placed = []
    for member, (top, left) in zip(members, offsets.tolist(), strict=True):
        tile = replace(member)
        if tile.boxes is not None:
            tile.boxes = box_math.clip(tile.boxes, tile.size)
        if tile.keypoints is not None and tile.keypoint_params.remove_invisible:
            # Those checked at the end alone would be seen there in another member's tile.
            tile.keep_keypoints(box_math.inside(tile.keypoints, tile.size))
        follow_matrix(tile, np.array([[1, 0, left], [0, 1, top], [0, 0, 1]], np.float64))
        placed.append(tile)
    joined = _joined(placed)
    if any(member.masks is None for member in members):
        return joined
    layers = []
    for member, (top, left) in zip(members, offsets.tolist(), strict=True):
        assert member.masks is not None
        shape = np.array(member.size)
        layers.append(mask_math.cut(member.masks, np.array([-top, -left]), shape, "constant", 0))
    if joined.has_mask_per_box:
        joined.masks = np.concatenate(layers)
    else:  # each layer is 0 outside its tile
        joined.masks = np.bitwise_or.reduce(layers)
    return joined


def _paste(start: NDArray[np.int64], shape: NDArray[np.int64], own: Moved, other: Moved) -> Moved:
    """Return the own targets with a rectangle of the other image's masks pasted into the masks."""
    pasted = replace(own)
    if own.masks is not None and other.masks is not None:
        pasted.masks = own.masks.copy()
        rows, columns = (slice(at, at + length) for at, length in zip(start, shape, strict=True))
        pasted.masks[:, rows, columns] = other.masks[:, rows, columns]
    return pasted
