"""Transforms of torchvision for boxes and keypoints only, and steps without an operation here."""

from collections.abc import Callable
from typing import Any

from gpu_aug.convert.registry import Refused
from gpu_aug.ops.boxes import ClampBoundingBoxes, SanitizeBoundingBoxes
from gpu_aug.ops.operation import Operation


def _sanitize_boxes(transform: Any) -> Operation:
    getter = transform.labels_getter
    if getter not in ("default", None):
        raise Refused(
            "its labels_getter looks into samples, and labels are told by name here",
            "SanitizeBoundingBoxes(), with box_labels beside the boxes",
        )
    return SanitizeBoundingBoxes(transform.min_size, transform.min_area)


def _clamp_boxes(transform: Any) -> Operation:
    if transform.clamping_mode not in ("auto", "soft", "hard", None):
        raise Refused(f"its clamping_mode is {transform.clamping_mode!r}")
    if transform.clamping_mode is None:
        raise Refused("with clamping_mode=None it leaves boxes beyond the image", "no transform")
    return ClampBoundingBoxes()


def _refuse(reason: str, nearest: str) -> Callable[[Any], Operation | None]:
    def refuse(_: Any) -> Operation | None:
        raise Refused(reason, nearest)

    return refuse


TARGETS: dict[str, Callable[[Any], Operation | None]] = {
    "SanitizeBoundingBoxes": _sanitize_boxes,
    "ClampBoundingBoxes": _clamp_boxes,
    "SanitizeKeyPoints": _refuse(
        "keypoints are dropped by the recipe, after each operation or at the end",
        "Recipe(..., keypoints=KeypointParams(remove_invisible=True, check_each=False))",
    ),
    "ClampKeyPoints": _refuse(
        "keypoints beyond the image are dropped or kept where they are, and not moved to its border",
        "KeypointParams(remove_invisible=True)",
    ),
    "SetClampingMode": _refuse(
        "whether boxes are cut at the border is said once for the whole recipe",
        "Recipe(..., boxes=BoxParams(check_each=...)), ClampBoundingBoxes()",
    ),
    "UniformTemporalSubsample": _refuse(
        "which frames of a video are read is said to the loader",
        "the clip's number of frames and their stride in the loader",
    ),
    "Lambda": _refuse(
        "it holds a function, which a recipe cannot look into", "BatchFunction(function)"
    ),
}
"""Class name -> what converts it, whatever type images have."""
