"""Converters for transforms of Albumentations that paint over parts of images."""

from typing import Any

from gpu_aug.convert.albumentations.geometry import mask_fill
from gpu_aug.convert.containers import unit_fill
from gpu_aug.convert.registry import ALBUMENTATIONS, Refused, converts, refuses
from gpu_aug.ops.dropout.dropout import CoarseDropout
from gpu_aug.ops.dropout.erase import Erasing
from gpu_aug.ops.imported.dropout import GridDropout, PixelDropout, RandomGridShuffle, XYMasking
from gpu_aug.ops.operation import Operation


def filling(args: dict[str, Any]) -> dict[str, Any]:
    """Return the fill and the probability of a transform as keyword arguments of Dropout."""
    fill = args["fill"]
    if isinstance(fill, str) and fill not in ("random", "random_uniform"):
        raise Refused(
            f"fill={fill!r} paints from the surroundings", "fill='random_uniform'", runs=True
        )
    return {
        "fill": fill if isinstance(fill, str) else unit_fill(fill),
        "fill_mask": None if args["fill_mask"] is None else mask_fill(args["fill_mask"]),
        "p": args["p"],
    }


@converts(ALBUMENTATIONS, "CoarseDropout")
def _coarse_dropout(args: dict[str, Any]) -> Operation | None:
    names = ("num_holes_range", "hole_height_range", "hole_width_range")
    return CoarseDropout(*(tuple(args[name]) for name in names), **filling(args))


@converts(ALBUMENTATIONS, "Erasing")
def _erasing(args: dict[str, Any]) -> Operation | None:
    return Erasing(tuple(args["scale"]), tuple(args["ratio"]), **filling(args))


@converts(ALBUMENTATIONS, "GridDropout")
def _grid_dropout(args: dict[str, Any]) -> Operation | None:
    unit, grid = args["unit_size_range"], args["holes_number_xy"]
    if grid is None and unit is not None and unit[0] == unit[1]:
        raise Refused(f"unit_size_range {unit!r} leaves nothing to draw", "(n, n + 1)")
    return GridDropout(
        args["ratio"],
        args["random_offset"],
        None if unit is None or grid else tuple(unit),
        tuple(grid) if grid else None,
        tuple(args["shift_xy"]),
        **filling(args),
    )


@converts(ALBUMENTATIONS, "XYMasking", "TimeMasking", "FrequencyMasking")
def _xy_masking(args: dict[str, Any]) -> Operation | None:
    names = ("num_masks_x", "num_masks_y", "mask_x_length", "mask_y_length")
    return XYMasking(*(args[name] for name in names), **filling(args))


@converts(ALBUMENTATIONS, "PixelDropout")
def _pixel_dropout(args: dict[str, Any]) -> Operation | None:
    if args["mask_drop_value"] is not None:
        raise Refused("it draws other pixels for masks", "mask_drop_value=None")
    value = args["drop_value"]
    return PixelDropout(
        args["dropout_prob"],
        per_channel=args["per_channel"],
        drop_value=None if value is None else unit_fill(value),
        p=args["p"],
    )


@converts(ALBUMENTATIONS, "RandomGridShuffle")
def _grid_shuffle(args: dict[str, Any]) -> Operation | None:
    return RandomGridShuffle(tuple(args["grid"]), args["p"])


refuses(
    ALBUMENTATIONS,
    "its draw depends on boxes or masks, and here what is drawn depends on the sample's index and "
    "size alone",
    "ConstrainedCoarseDropout",
    "MaskDropout",
    nearest="CoarseDropout(num_holes=(1, 2))",
)
