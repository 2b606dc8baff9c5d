"""Converters for warps of Albumentations."""

from typing import Any

from gpu_aug.convert.albumentations.geometry import BORDERS, mask_fill
from gpu_aug.convert.registry import ALBUMENTATIONS, Refused, converts, refuses
from gpu_aug.ops.geometric.affine import Affine
from gpu_aug.ops.geometric.elastic import ElasticDistortion
from gpu_aug.ops.geometric.perspective import Perspective
from gpu_aug.ops.geometric.rotate import Rotate, SafeRotate
from gpu_aug.ops.imported.control_points import PiecewiseAffine, ThinPlateSpline
from gpu_aug.ops.imported.distortion import GridDistortion, OpticalDistortion
from gpu_aug.ops.operation import Operation

# OpenCV warps with INTER_AREA as with INTER_LINEAR.
_INTERPOLATIONS = {0: "nearest", 1: "bilinear", 2: "bicubic", 3: "bilinear"}
# cv2's names of its numbers, for reasons of refusals.
_NAMES = {3: "cv2.INTER_AREA", 4: "cv2.INTER_LANCZOS4"}

refuses(
    ALBUMENTATIONS,
    "which patch of its mesh a pixel on a seam belongs to is decided by OpenCV's filling of polygons, "
    "which no other engine has",
    "GridElasticDeform",
    nearest="gpu_aug.ThinPlateSpline(), gpu_aug.ElasticDistortion(alpha=300, sigma=20)",
    runs=True,
)


@converts(ALBUMENTATIONS, "Affine")
def _affine(args: dict[str, Any]) -> Operation | None:
    _check_boxes(args)
    names = (
        *("scale", "translate_percent", "translate_px", "shear"),
        *("fit_output", "keep_ratio", "balanced_scale"),
    )
    return Affine(
        rotate=tuple(args["rotate"]), **{name: args[name] for name in names}, **_border(args)
    )


@converts(ALBUMENTATIONS, "ShiftScaleRotate")
def _shift_scale_rotate(args: dict[str, Any]) -> Operation | None:
    _check_boxes(args)
    low, high = args["scale_limit"]
    return Affine(
        scale=(1 + low, 1 + high),
        translate_percent={"x": args["shift_limit_x"], "y": args["shift_limit_y"]},
        rotate=tuple(args["rotate_limit"]),
        **_border(args),
    )


@converts(ALBUMENTATIONS, "Rotate")
def _rotate(args: dict[str, Any]) -> Operation | None:
    _check_boxes(args)
    return Rotate(tuple(args["limit"]), crop_border=args["crop_border"], **_border(args))


@converts(ALBUMENTATIONS, "SafeRotate")
def _safe_rotate(args: dict[str, Any]) -> Operation | None:
    _check_boxes(args)
    return SafeRotate(tuple(args["limit"]), **_border(args))


@converts(ALBUMENTATIONS, "Perspective")
def _perspective(args: dict[str, Any]) -> Operation | None:
    return Perspective(
        tuple(args["scale"]),
        keep_size=args["keep_size"],
        fit_output=args["fit_output"],
        **_border(args, first_channel=True),
    )


@converts(ALBUMENTATIONS, "ElasticTransform")
def _elastic(args: dict[str, Any]) -> Operation | None:
    names = ("alpha", "sigma", "approximate", "same_dxdy", "noise_distribution")
    return ElasticDistortion(
        **{name: args[name] for name in names}, **_border(args, first_channel=True)
    )


@converts(ALBUMENTATIONS, "GridDistortion")
def _grid_distortion(args: dict[str, Any]) -> Operation | None:
    return GridDistortion(
        args["num_steps"],
        tuple(args["distort_limit"]),
        normalized=args["normalized"],
        **_border(args, first_channel=True),
    )


@converts(ALBUMENTATIONS, "OpticalDistortion")
def _optical_distortion(args: dict[str, Any]) -> Operation | None:
    return OpticalDistortion(
        tuple(args["distort_limit"]), args["mode"], **_border(args, first_channel=True)
    )


@converts(ALBUMENTATIONS, "PiecewiseAffine")
def _piecewise_affine(args: dict[str, Any]) -> Operation | None:
    return PiecewiseAffine(
        tuple(args["scale"]),
        tuple(args["nb_rows"]),
        tuple(args["nb_cols"]),
        absolute_scale=args["absolute_scale"],
        **_border(args, first_channel=True),
    )


@converts(ALBUMENTATIONS, "ThinPlateSpline")
def _thin_plate_spline(args: dict[str, Any]) -> Operation | None:
    return ThinPlateSpline(
        tuple(args["scale_range"]), args["num_control_points"], **_border(args, first_channel=True)
    )


def _check_boxes(args: dict[str, Any]) -> None:
    if args.get("rotate_method", "largest_box") != "largest_box":
        raise Refused(
            "with rotate_method='ellipse' boxes follow an ellipse inside of them, and here they "
            "follow their corners",
            "rotate_method='largest_box'",
        )


def _border(args: dict[str, Any], *, first_channel: bool = False) -> dict[str, Any]:
    """Return the border and the interpolation of a transform, as keyword arguments of WarpWithBorder.

    With ``first_channel``, a fill that is one number is the fill of the first channel, and 0 of the others:
    Albumentations passes it to OpenCV unchanged.
    """
    interpolation = _INTERPOLATIONS.get(args["interpolation"])
    if interpolation is None:
        raise Refused(
            f"its interpolation {_NAMES.get(args['interpolation'], args['interpolation'])} exists in "
            "OpenCV alone",
            "interpolation=cv2.INTER_CUBIC",
        )
    if args.get("mask_interpolation", 0) != 0:
        raise Refused(
            "its mask_interpolation mixes the labels of masks, which are resampled nearest here",
            "mask_interpolation=cv2.INTER_NEAREST",
        )
    padding_mode = BORDERS.get(args["border_mode"])
    if padding_mode is None:
        raise Refused(
            "its border_mode cv2.BORDER_WRAP exists in OpenCV alone",
            "border_mode=cv2.BORDER_REFLECT_101",
        )
    if interpolation == "bicubic" and padding_mode in ("symmetric", "reflect"):
        raise Refused(
            "bicubic warps with mirrored borders differ between OpenCV and torch",
            "interpolation=cv2.INTER_LINEAR, or border_mode=cv2.BORDER_REPLICATE",
        )
    border = {"interpolation": interpolation, "padding_mode": padding_mode, "p": args["p"]}
    if padding_mode != "constant":
        return border
    return border | {
        "fill": _fill(args["fill"], first_channel),
        "fill_mask": mask_fill(args.get("fill_mask") or 0),
    }


def _fill(value: Any, first_channel: bool) -> Any:
    if isinstance(value, list | tuple):
        if len(value) != 3:
            raise Refused("its fill has other channels than red, green and blue", "fill=(0, 0, 0)")
        return tuple(channel / 255 for channel in value)
    return (value / 255, 0.0, 0.0) if first_channel else value / 255
