"""Converters for flips, crops, borders and resizes of Albumentations."""

from typing import Any

from gpu_aug.convert.containers import unit_fill
from gpu_aug.convert.registry import ALBUMENTATIONS, Changed, Refused, alike, converts, refuses
from gpu_aug.ops.combine import RandomApply
from gpu_aug.ops.geometric import box_crops, crops, pads, random_resizes, resized_crops, resizes
from gpu_aug.ops.geometric.flips import D4, HorizontalFlip, RandomRotate90, Transpose, VerticalFlip
from gpu_aug.ops.imported.crops import CropAndPad, RandomCropFromBorders, RandomSizedCrop
from gpu_aug.ops.operation import Operation

# cv2's numbers. INTER_LINEAR_EXACT differs from INTER_LINEAR on uint8 only.
_INTERPOLATIONS = {
    0: "nearest_floor",
    1: "bilinear",
    2: "bicubic",
    3: "area",
    5: "bilinear",
    6: "nearest",
}
# cv2's numbers of border modes.
BORDERS = {0: "constant", 1: "edge", 2: "symmetric", 4: "reflect"}


def interpolation(value: Any) -> str:
    """Return the name of an interpolation that cv2 denotes by a number."""
    if value not in _INTERPOLATIONS:
        raise Refused(
            f"cv2 interpolation {value} (4 is INTER_LANCZOS4) has no equal", "cv2.INTER_CUBIC"
        )
    return _INTERPOLATIONS[value]


def resampling(args: dict[str, Any]) -> dict[str, Any]:
    """Return how images and masks are interpolated, as keyword arguments of Resampling."""
    if args.get("area_for_downscale") == "image_mask":
        raise Refused(
            "area_for_downscale='image_mask' averages the labels of masks",
            "area_for_downscale='image'",
        )
    masks = interpolation(args.get("mask_interpolation", 0))
    if masks not in resizes.NEAREST:
        raise Refused(
            f"its mask_interpolation is {masks}, which mixes the labels of masks",
            "mask_interpolation=cv2.INTER_NEAREST",
        )
    return {
        "interpolation": interpolation(args["interpolation"]),
        "antialias": False,
        "mask_interpolation": masks,
        "area_for_downscale": args.get("area_for_downscale") == "image",
    }


def padding(args: dict[str, Any]) -> dict[str, Any]:
    """Return the padding of images and masks, as keyword arguments of PaddedCrop."""
    border = args["border_mode"]
    if border not in BORDERS:
        raise Refused(
            f"cv2 border_mode {border} (3 is BORDER_WRAP) has no equal", "cv2.BORDER_REFLECT_101"
        )
    if border != 0:
        return {"padding_mode": BORDERS[border]}
    return {"fill": unit_fill(args["fill"]), "fill_mask": mask_fill(args["fill_mask"])}


def mask_fill(value: Any) -> int:
    """Return the fill value of masks."""
    values = value if isinstance(value, list | tuple) else (value,)
    if len(set(values)) != 1 or int(values[0]) != values[0]:
        raise Refused(f"masks are filled with one whole number, not {value!r}", "fill_mask=0")
    return int(values[0])


def gated(operation: Operation, args: dict[str, Any]) -> Operation | None:
    """Return an operation that is applied with the probability ``p`` of ``args``, or None if that is 0."""
    if args["p"] == 0:
        return None
    return operation if args["p"] == 1 else RandomApply([operation], p=args["p"])


ALBUMENTATIONS.update(
    {
        "NoOp": lambda _: None,
        **dict.fromkeys(("D4", "SquareSymmetry"), alike(D4)),
        **dict.fromkeys(("HorizontalFlip", "TimeReverse"), alike(HorizontalFlip)),
        "RandomRotate90": alike(RandomRotate90),
        "Transpose": alike(Transpose),
        "VerticalFlip": alike(VerticalFlip),
    }
)


@converts(ALBUMENTATIONS, "RandomCrop")
def _random_crop(args: dict[str, Any]) -> Operation | None:
    size = (args["height"], args["width"])
    return gated(crops.RandomCrop(size, position=args["pad_position"], **padding(args)), args)


@converts(ALBUMENTATIONS, "CenterCrop")
def _center_crop(args: dict[str, Any]) -> Operation | None:
    size, position = (args["height"], args["width"]), args["pad_position"]
    crop = crops.CenterCrop(size, rounding="down", position=position, **padding(args))
    return gated(crop, args)


@converts(ALBUMENTATIONS, "Crop")
def _crop(args: dict[str, Any]) -> Operation | None:
    start = (args["y_min"], args["x_min"])
    size = (args["y_max"] - start[0], args["x_max"] - start[1])
    crop = crops.FixedCrop(size, start, **padding(args))
    if args["pad_if_needed"] and args["pad_position"] != "top_left":
        raise Refused(
            f"with pad_position={args['pad_position']!r} an image that is too small is moved under "
            "the crop",
            repr(crop),
        )
    return gated(crop, args)


@converts(ALBUMENTATIONS, "Pad")
def _pad(args: dict[str, Any]) -> Operation | None:
    return gated(pads.Pad(args["padding"], **padding(args)), args)


@converts(ALBUMENTATIONS, "PadIfNeeded")
def _pad_if_needed(args: dict[str, Any]) -> Operation | None:
    pad = pads.PadIfNeeded(
        (args["min_height"], args["min_width"]),
        divisor=(args["pad_height_divisor"], args["pad_width_divisor"]),
        position=args["position"],
        **padding(args),
    )
    return gated(pad, args)


@converts(ALBUMENTATIONS, "RandomCropFromBorders")
def _crop_from_borders(args: dict[str, Any]) -> Operation | None:
    sides = ("crop_left", "crop_right", "crop_top", "crop_bottom")
    return gated(RandomCropFromBorders(**{side: args[side] for side in sides}), args)


@converts(ALBUMENTATIONS, "CropAndPad")
def _crop_and_pad(args: dict[str, Any]) -> Operation | None:
    spans = args["px"] if args["px"] is not None else args["percent"]
    if isinstance(spans, list | tuple) and any(
        isinstance(item, list | tuple) and len(item) != 2 for item in spans
    ):
        raise Refused("it draws from lists of numbers", "(low, high) for each side")
    for name in ("fill", "fill_mask"):
        if isinstance(args[name], list | tuple) and len(set(args[name])) > 1:
            raise Refused(f"it draws its {name} from several", f"{name}={args[name][0]}")
        if isinstance(args[name], list | tuple):
            args = args | {name: args[name][0]}
    operation = CropAndPad(
        _pairs(args["px"]),
        _pairs(args["percent"]),
        independent=args["sample_independently"],
        keep_size=args["keep_size"],
        **padding(args),
        **resampling(args),
    )
    ends = _numbers(spans)
    if operation.padding_mode in ("reflect", "symmetric") and min(ends) < 0 < max(ends):
        raise Refused(
            "it mirrors what is left after cutting off", "border_mode=cv2.BORDER_REPLICATE"
        )
    return gated(operation, args)


@converts(ALBUMENTATIONS, "Resize")
def _resize(args: dict[str, Any]) -> Operation | None:
    return gated(resizes.Resize((args["height"], args["width"]), **resampling(args)), args)


def _max_size(cls: Any) -> Any:
    def convert(args: dict[str, Any]) -> Operation | None:
        side, sides = args["max_size"], args["max_size_hw"]
        side = tuple(side) if isinstance(side, list | tuple) else side
        sides = None if sides is None else tuple(sides)
        return gated(cls(side, sides, **resampling(args)), args)

    return convert


converts(ALBUMENTATIONS, "LongestMaxSize")(_max_size(resizes.LongestMaxSize))
converts(ALBUMENTATIONS, "SmallestMaxSize")(_max_size(resizes.SmallestMaxSize))


@converts(ALBUMENTATIONS, "RandomScale")
def _random_scale(args: dict[str, Any]) -> Operation | None:
    low, high = args["scale_limit"]
    return gated(random_resizes.RandomScale((1 + low, 1 + high), **resampling(args)), args)


@converts(ALBUMENTATIONS, "RandomResizedCrop")
def _random_resized_crop(args: dict[str, Any]) -> Operation | None:
    crop = resized_crops.RandomResizedCrop(
        tuple(args["size"]), scale=args["scale"], ratio=args["ratio"], **resampling(args)
    )
    return gated(crop, args)


@converts(ALBUMENTATIONS, "RandomSizedCrop")
def _random_sized_crop(args: dict[str, Any]) -> Operation | None:
    crop = RandomSizedCrop(
        tuple(args["min_max_height"]),
        tuple(args["size"]),
        w2h_ratio=args["w2h_ratio"],
        **resampling(args),
    )
    return gated(crop, args)


ALBUMENTATIONS["BBoxSafeRandomCrop"] = alike(box_crops.BBoxSafeRandomCrop)


@converts(ALBUMENTATIONS, "AtLeastOneBBoxRandomCrop")
def _one_box_at_least(args: dict[str, Any]) -> Operation | None:
    size, share = (args["height"], args["width"]), args["erosion_factor"]
    return box_crops.AtLeastOneBBoxRandomCrop(size, share, p=args["p"])


@converts(ALBUMENTATIONS, "RandomSizedBBoxSafeCrop")
def _box_safe_resized(args: dict[str, Any]) -> Operation | None:
    size, share = (args["height"], args["width"]), args["erosion_rate"]
    way = resampling(args)
    return box_crops.RandomSizedBBoxSafeCrop(size, erosion_rate=share, p=args["p"], **way)


@converts(ALBUMENTATIONS, "RandomCropNearBBox")
def _near_a_box(args: dict[str, Any]) -> Changed:
    crop = box_crops.RandomCropNearBBox(args["max_part_shift"], p=args["p"])
    key = args["cropping_bbox_key"]
    return Changed(crop, f"the box is the first of a sample's boxes, not the argument {key!r}")


def _pairs(value: Any) -> Any:
    """Return nested lists as nested tuples; other values are unchanged."""
    return tuple(map(_pairs, value)) if isinstance(value, list | tuple) else value


def _numbers(value: Any) -> list[float]:
    if isinstance(value, list | tuple):
        return [number for item in value for number in _numbers(item)]
    return [value]


refuses(
    ALBUMENTATIONS,
    "its draw depends on masks, and here what is drawn depends on the sample's index and size alone",
    "CropNonEmptyMaskIfExists",
    nearest="RandomCrop((height, width))",
)
refuses(
    ALBUMENTATIONS,
    "it works on volumes, and recipes on images",
    "CenterCrop3D",
    "CoarseDropout3D",
    "CubicSymmetry",
    "GridShuffle3D",
    "Pad3D",
    "PadIfNeeded3D",
    "RandomCrop3D",
)

refuses(
    ALBUMENTATIONS,
    "it takes the other images out of metadata that the caller puts beside each image, and a recipe "
    "takes them out of the batch",
    "Mosaic",
    nearest="gpu_aug.Mosaic(center_range=(0.3, 0.7)), on images of one size",
)
