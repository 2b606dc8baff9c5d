"""Converters for color transforms of Albumentations, whose results on uint8 images the operations reproduce."""

from typing import Any

from gpu_aug.convert.registry import (
    ALBUMENTATIONS,
    THREE_EQUAL,
    Changed,
    Refused,
    alike,
    ascending,
    converts,
    refuses,
)
from gpu_aug.ops.color.adjust import CLAHE, Gamma, Grayscale, HueSaturationValue, Invert, Solarize
from gpu_aug.ops.color.jitter import ColorJitter
from gpu_aug.ops.color.lookup_tables import (
    Equalize,
    Posterize,
)
from gpu_aug.ops.color.matrices import (
    ChannelDropout,
    ChannelShuffle,
    RandomBrightnessContrast,
    RGBShift,
    ToSepia,
)
from gpu_aug.ops.color.normalize import Normalize, ToDtype
from gpu_aug.ops.combine import RandomApply
from gpu_aug.ops.imported.color import FancyPCA, HEStain, NormalizePerImage
from gpu_aug.ops.imported.planckian import PlanckianJitter
from gpu_aug.ops.imported.shading import Illumination, PlasmaBrightnessContrast, PlasmaShadow
from gpu_aug.ops.imported.tones import EqualizeLuma, HistogramStretch, RandomToneCurve
from gpu_aug.ops.operation import Operation

Args = dict[str, Any]


ALBUMENTATIONS.update(
    {
        "ChannelShuffle": alike(ChannelShuffle),
        "ColorJitter": alike(ColorJitter),
        "FancyPCA": alike(FancyPCA),
        "Illumination": alike(
            Illumination,
            intensity="intensity_range",
            effect="effect_type",
            angle="angle_range",
            center="center_range",
            sigma="sigma_range",
        ),
        "InvertImg": alike(Invert),
        "PlanckianJitter": alike(PlanckianJitter, temperature="temperature_limit"),
        "PlasmaBrightnessContrast": alike(
            PlasmaBrightnessContrast, brightness="brightness_range", contrast="contrast_range"
        ),
        "PlasmaShadow": alike(PlasmaShadow, intensity="shadow_intensity_range"),
        "RandomBrightnessContrast": alike(RandomBrightnessContrast),
        "RandomToneCurve": alike(RandomToneCurve),
        "Solarize": alike(Solarize, threshold="threshold_range"),
        "ToSepia": alike(ToSepia),
    }
)


@converts(ALBUMENTATIONS, "HueSaturationValue")
def _shift_hsv(args: Args) -> Operation | None:
    limits = [ascending(args[f"{name}_shift_limit"]) for name in ("hue", "sat", "val")]
    if not any(any(ends) for ends in limits):  # it rounds to 8 bits, and does not go through HSV
        return RandomApply([ToDtype("uint8")], args["p"])
    return HueSaturationValue(*limits, p=args["p"])


@converts(ALBUMENTATIONS, "RandomGamma")
def _gamma(args: Args) -> Operation | None:
    low, high = ascending(args["gamma_limit"])
    return Gamma((low / 100, high / 100), p=args["p"])


@converts(ALBUMENTATIONS, "ToGray")
def _to_gray(args: Args) -> Operation | Changed | None:
    if args["num_output_channels"] not in (1, 3):
        raise Refused(
            f"it makes images of {args['num_output_channels']} channels, and images have 3 here",
            "ToGray(num_output_channels=3)",
        )
    if args["method"] == "pca":
        raise Refused(
            "with method='pca' the linear algebra library decides whether the gray is inverted",
            "ToGray(method='weighted_average')",
        )
    operation = Grayscale(args["p"], args["method"])
    return Changed(operation, THREE_EQUAL) if args["num_output_channels"] == 1 else operation


@converts(ALBUMENTATIONS, "Posterize")
def _posterize(args: Args) -> Operation | None:
    bits = args["num_bits"]
    if isinstance(bits, int):
        bits = (bits, bits)
    if isinstance(bits[0], list | tuple):
        if len(bits) == 1:
            bits = bits[0]
        elif len(bits) != 3:
            raise Refused(
                f"it has numbers of bits for {len(bits)} channels, and images have 3 here",
                "three pairs in num_bits",
            )
        else:
            return Posterize(tuple((int(low), int(high)) for low, high in bits), args["p"])
    return Posterize((int(bits[0]), int(bits[1])), args["p"])


@converts(ALBUMENTATIONS, "Equalize")
def _equalize(args: Args) -> Operation | None:
    if args["mask"] is not None:
        raise Refused("it counts tones under a mask of its own", "Equalize(mask=None)")
    method = "opencv" if args["mode"] == "cv" else "inclusive"
    kind = Equalize if args["by_channels"] else EqualizeLuma
    return kind(args["p"], method)  # type: ignore[arg-type]


@converts(ALBUMENTATIONS, "AutoContrast")
def _auto_contrast(args: Args) -> Operation | None:
    return HistogramStretch(
        cutoff=args["cutoff"],
        ignore=args["ignore"],
        method="linear" if args["method"] == "pil" else "cdf",
        p=args["p"],
    )


@converts(ALBUMENTATIONS, "CLAHE")
def _clahe(args: Args) -> Operation | None:
    return CLAHE(ascending(args["clip_limit"]), tuple(args["tile_grid_size"]), p=args["p"])


@converts(ALBUMENTATIONS, "ChannelDropout")
def _channel_dropout(args: Args) -> Operation | None:
    least, most = args["channel_drop_range"]
    if most > 2:
        raise Refused(
            "it may drop all three channels, which Albumentations refuses as well",
            "ChannelDropout(channel_drop_range=(1, 2))",
        )
    fill = float(args["fill"])
    if not 0 <= fill <= 255:
        raise Refused(f"its fill {fill:g} is no value of an 8-bit image", "a fill from 0 to 255")
    return ChannelDropout((int(least), int(most)), fill=fill / 255, p=args["p"])


@converts(ALBUMENTATIONS, "RGBShift")
def _rgb_shift(args: Args) -> Operation | None:
    shifts = []
    for channel in "rgb":
        low, high = ascending(args[f"{channel}_shift_limit"])
        unit = 255 if max(abs(low), abs(high)) > 1 else 1  # Albumentations' own rule
        shifts.append((low / unit, high / unit))
    return RGBShift(*shifts, p=args["p"])


@converts(ALBUMENTATIONS, "Normalize")
def _normalize(args: Args) -> Operation | None:
    if args["p"] != 1:
        raise Refused("it leaves some images as they are, in another range", "Normalize(p=1)")
    kind = args["normalization"]
    if kind != "standard":
        by = "min_max" if kind.startswith("min_max") else "mean_std"
        return NormalizePerImage(by, kind.endswith("_per_channel"))  # type: ignore[arg-type]
    unit = float(args["max_pixel_value"]) / 255
    mean, std = (
        tuple(unit * number for number in (values * 3 if len(values) == 1 else values))
        for values in (_three(args["mean"]), _three(args["std"]))
    )
    return Normalize(mean, std)


def _three(value: Any) -> list[float]:
    return [float(v) for v in (value if isinstance(value, list | tuple) else [value])]


@converts(ALBUMENTATIONS, "ToFloat")
def _to_float(args: Args) -> Operation | None:
    if args["max_value"] not in (None, 255):
        raise Refused(
            f"it divides 8-bit values by {args['max_value']:g}, and they lie in [0, 1] here",
            "ToFloat(max_value=255)",
        )
    return None


@converts(ALBUMENTATIONS, "FromFloat")
def _from_float(args: Args) -> Operation | None:
    if args["dtype"] != "uint8" or args["max_value"] not in (None, 255):
        raise Refused(
            f"it makes {args['dtype']} of values times {args['max_value']}, and images are uint8 "
            "or floating here",
            "FromFloat(dtype='uint8')",
        )
    return ToDtype("uint8")


@converts(ALBUMENTATIONS, "ToRGB")
def _to_rgb(args: Args) -> Operation | None:
    if args["num_output_channels"] != 3:
        raise Refused("images have three channels here", "ToRGB(num_output_channels=3)")
    return None  # images have three channels here


@converts(ALBUMENTATIONS, "HEStain")
def _stain(args: Args) -> Operation | None:
    method = args["method"]
    if method not in ("preset", "random_preset"):
        raise Refused(
            f"with method={method!r} it fits the stains to each image step by step",
            "HEStain(method='random_preset')",
            runs=True,
        )
    return HEStain(
        args["preset"] or "standard" if method == "preset" else None,
        intensity_scale=ascending(args["intensity_scale_range"]),
        intensity_shift=ascending(args["intensity_shift_range"]),
        augment_background=bool(args["augment_background"]),
        p=args["p"],
    )


refuses(
    ALBUMENTATIONS,
    "it takes reference images, which a recipe does not hold",
    "FDA",
    "HistogramMatching",
    "PixelDistributionAdaptation",
    nearest="gpu_aug.RandomToneCurve(per_channel=True)",
)
refuses(
    ALBUMENTATIONS,
    "it paints what the caller puts beside each image, and a recipe has the image alone",
    "OverlayElements",
    "TextImage",
    nearest="gpu_aug.CoarseDropout()",
)
