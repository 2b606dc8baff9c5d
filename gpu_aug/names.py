"""Names of other libraries, of earlier versions, and misspelt names, with what to write instead."""

import re
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec

ALIASES = {
    "AugmentationSequential": "Recipe",
    "BboxParams": "BoxParams",
    "ClampKeyPoints": "KeypointParams",
    "ColorJiggle": "ColorJitter",
    "Compose": "Recipe",
    "ConvertBoundingBoxFormat": "BoxParams",
    "ConvertImageDtype": "ToDtype",
    "Crop": "FixedCrop",
    "Cutout": "CoarseDropout",
    "FiveCrop": "Views",
    "FrequencyMasking": "XYMasking",
    "FromFloat": "ToDtype",
    "ImageCompression": "JPEG",
    "ImageSequential": "Recipe",
    "InvertImg": "Invert",
    "Lambda": "BatchFunction",
    "NoOp": "Identity",
    "OneOrOther": "OneOf",
    "PadTo": "PadIfNeeded",
    "RandomAdjustSharpness": "Sharpness",
    "RandomBoxBlur": "Blur",
    "RandomChannelPermutation": "ChannelShuffle",
    "RandomChoice": "OneOf",
    "RandomCutMixV2": "CutMix",
    "RandomFisheye": "OpticalDistortion",
    "RandomGaussianIllumination": "Illumination",
    "RandomLinearCornerIllumination": "Illumination",
    "RandomLinearIllumination": "Illumination",
    "RandomMixUpV2": "MixUp",
    "RandomPlasmaBrightness": "PlasmaBrightnessContrast",
    "RandomPlasmaContrast": "PlasmaBrightnessContrast",
    "RandomResizedCropAndInterpolation": "RandomResizedCrop",
    "RandomRotation90": "RandomRotate90",
    "RandomSaltAndPepperNoise": "SaltAndPepper",
    "RandomShear": "RandomAffine",
    "RandomTranslate": "RandomAffine",
    "RandomTransplantation": "CutMix",
    "ReplayCompose": "Recipe",
    "SanitizeKeyPoints": "KeypointParams",
    "Sequential": "RandomApply",
    "ShiftScaleRotate": "Affine",
    "SquareSymmetry": "D4",
    "TenCrop": "Views",
    "TimeMasking": "XYMasking",
    "TimeReverse": "HorizontalFlip",
    "ToGray": "Grayscale",
    "VideoSequential": "Recipe",
}
"""Name in torchvision, Kornia, Albumentations or timm -> the same or the nearest name of gpu_aug."""

MOVED = {
    "Bordered": "gpu_aug.ops.geometric.warps.WarpWithBorder",
    "Gated": "gpu_aug.ops.operation.WithProbability",
    "Whole": "gpu_aug.ops.geometric.resizes.FullImageResize",
}
"""Name of an earlier snapshot -> what it is called now; docs/moved_names.md has these and the modules."""

NEEDLESS = (
    "MaybePILToTensor",
    "MaybeToTensor",
    "PILToTensor",
    "RGB",
    "ToFloat",
    "ToImage",
    "ToPILImage",
    "ToPureTensor",
    "ToRGB",
    "ToTensor",
    "ToTensorV2",
)
"""Conversions that need no step here: images come decoded, in RGB, and leave as tensors."""

REFUSED: dict[str, str] = {}
"""Class of another library that converters refuse with any arguments -> the reason; gpu_aug.convert fills it."""

TIMM_LAW = (
    "timm carries out each operation that it has drawn with a chance of its own, one half, may draw its "
    "magnitude from a normal law, and has SolarizeAdd, which RandAugment of torchvision and of a "
    "recipe do not"
)
"""Why policies of timm cannot be imported."""

_MAGNITUDES = 31  # of RandAugment; timm counts from 0 to 10
# timm's strings for policies, such as rand-m9-mstd0.5-inc1.
_POLICY = re.compile(r"(rand|augmix|original|originalr|v0|v0r|3a)(-[a-z]+[\d.]*)*")

# Argument of another library -> ours.
_ARGUMENTS = {
    "always_apply": "p",
    "labels": "box_labels",  # of torchvision's targets
    **dict.fromkeys(("crop_size", "image_size", "img_size", "imgsz", "input_size"), "size"),
    "border_mode": "padding_mode",
    "fill_value": "fill",
    "height": "size",
    "prob": "p",
    "probability": "p",
    "resize_size": "resize",
    "resample": "interpolation",
    "width": "size",
}


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is nearest to ``name``, or None.

    A name of another library is looked up first, then a name that differs only in "Random", then a misspelling.
    """
    names = sorted(known)
    alias = ALIASES.get(name) or _ARGUMENTS.get(name)
    if alias in names:
        return alias
    bare = {_bare(other): other for other in names}
    found = get_close_matches(_bare(name), bare, n=1, cutoff=0.75)
    if found:
        return bare[found[0]]
    lower = {other.lower(): other for other in names}
    found = get_close_matches(name.lower(), lower, n=1, cutoff=0.75)
    return lower[found[0]] if found else None


def hint(name: str, known: Iterable[str]) -> str:
    """Return what to write instead of ``name``, as the end of an error; "" if no known name is near."""
    if name in MOVED:
        return f"it is now {MOVED[name]}"
    if name in NEEDLESS:
        return "images come decoded in RGB and leave as tensors, so leave it out"
    import_module("gpu_aug.convert")  # fills REFUSED; here, because the import takes long
    if name in REFUSED:
        return f"it has no equal here: {REFUSED[name]}"
    near = closest(name, known)
    return f"did you mean {near}?" if near else ""


def policy_reason(config: str) -> str:
    """Return why a timm policy such as "rand-m9-mstd0.5-inc1" is refused; "" for other text."""
    if not _POLICY.fullmatch(config):
        return ""
    kind, *settings = config.split("-")
    given = dict(re.findall(r"([a-z]+)([\d.]+)", " ".join(settings)))
    nearest = "gpu_aug.AugMix()" if kind == "augmix" else "gpu_aug.AutoAugment()"
    if kind == "rand":
        nearest = nearest_policy(int(given.get("n", 2)), float(given.get("m", 10)))
    return f"{config!r} is a policy of timm; {TIMM_LAW}; nearest: {nearest}"


def nearest_policy(num_ops: int, magnitude: float) -> str:
    """Return the RandAugment call nearest to a policy of timm, whose magnitudes range from 0 to 10."""
    number = min(round(magnitude / 10 * (_MAGNITUDES - 1)), _MAGNITUDES - 1)
    return f"gpu_aug.RandAugment({num_ops}, {number})"


def _bare(name: str) -> str:
    return name.replace("_", "").lower().removeprefix("random").removesuffix("v2")


def missing(package: str, name: str, known: Iterable[str]) -> Exception:
    """Return the error that a package's ``__getattr__`` raises for a name that the package does not have.

    `from package import name` asks for the attribute twice: importlib with hasattr, before it looks for a submodule, and then the
    statement itself. Both discard the text of an AttributeError. So importlib gets an ImportError, whose text the user
    sees; all other callers, such as getattr and hasattr, need an AttributeError.
    """
    text = f"module {package!r} has no attribute {name!r}"
    if name.startswith("_") or not name.isidentifier() or find_spec(f"{package}.{name}"):
        # Python asks for names of its protocols, and importlib for a submodule before it loads it.
        return AttributeError(text)
    if way := hint(name, known):
        text += f": {way}"
    by_import = sys._getframe(2).f_code.co_name == "_handle_fromlist"
    return ImportError(text, name=package) if by_import else AttributeError(text)
