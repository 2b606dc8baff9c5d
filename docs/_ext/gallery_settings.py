"""What the gallery shows of every operation: which arguments, on which picture, on which page."""

from dataclasses import dataclass
from typing import Any

import gpu_aug
from gpu_aug import (
    ColorJitter,
    GaussianBlur,
    Grayscale,
    HorizontalFlip,
    Invert,
    Operation,
    RandomRotation,
    Solarize,
)

HEIGHT, WIDTH = 96, 128
"""Of the originals, in pixels."""

_PARTS = [ColorJitter(hue=0.4), RandomRotation(30), Grayscale(p=1.0), Invert(p=1.0)]

SHOWN: dict[str, tuple[dict[str, Any], ...]] = {
    "AdditiveNoise": ({}, {"spatial_mode": "per_pixel", "ranges": ((-0.3, 0.3),)}),
    "AdvancedBlur": ({"kernel_size": (7, 11), "sigma_x": (0.5, 4.0), "sigma_y": (0.5, 4.0)},),
    "Affine": (
        {"rotate": (-30, 30), "scale": (0.7, 1.2)},
        {"shear": (-25, 25), "translate_percent": 0.1, "padding_mode": "reflect"},
    ),
    "AlbumentationsTransform": (),
    "AugMix": ({}, {"severity": 8}),
    "AutoAugment": ({}, {"policy": "svhn"}),
    "AutoContrast": ({},),
    "BatchFunction": (),
    "Blur": ({"kernel_size": (3, 11)},),
    "Brightness": ({"factor": 0.5},),
    "CLAHE": ({"clip_limit": 4.0}, {"clip_limit": 12.0, "tile_grid_size": (4, 4)}),
    "CenterCrop": ({"size": (64, 64)}, {"size": (112, 144), "padding_mode": "reflect"}),
    "ChannelDropout": ({}, {"num_channels": 2}),
    "ChannelShuffle": ({},),
    "ChromaticAberration": ({"primary": (-0.2, 0.2), "secondary": (-0.4, 0.4)},),
    "ClampBoundingBoxes": (),
    "CoarseDropout": ({}, {"num_holes": (4, 8), "fill": "random"}),
    "ColorJitter": (
        {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1},
        {"brightness": 0.8, "contrast": 0.8, "saturation": 0.8, "hue": 0.2},
    ),
    "Contrast": ({"factor": 0.6},),
    "CropAndPad": ({"percent": (-0.25, 0.25)},),
    "CutMix": ({"num_classes": 4},),
    "D4": ({},),
    "Defocus": ({"radius": (2, 5)},),
    "Downscale": ({}, {"scale": (0.1, 0.5), "up": "bilinear"}),
    "ElasticDistortion": ({"alpha": 300.0, "sigma": 12.0},),
    "ElasticTransform": ({}, {"alpha": 150.0, "sigma": 8.0, "padding_mode": "reflect"}),
    "Emboss": ({"alpha": (0.5, 1.0), "strength": (0.5, 1.5)},),
    "Equalize": ({},),
    "EqualizeLuma": ({},),
    "Erasing": ({}, {"fill": "random"}),
    "FancyPCA": ({"alpha": 0.5},),
    "FixedCrop": (
        {"size": (64, 64), "position": "top_left"},
        {"size": (64, 64), "position": (20, 60)},
    ),
    "FrameDrop": (),
    "Gamma": ({"gamma": (0.4, 2.5)},),
    "GaussNoise": ({}, {"std_range": (0.1, 0.2), "per_channel": False}),
    "GaussianBlur": ({"kernel_size": 13}, {"kernel_size": 23, "sigma": (3.0, 5.0)}),
    "GaussianNoise": ({}, {"sigma": 0.3}),
    "GlassBlur": ({}, {"max_delta": 2, "iterations": 1}),
    "Grayscale": ({}, {"method": "max"}),
    "GridDistortion": ({}, {"num_steps": 3, "distort_limit": 0.6, "padding_mode": "reflect"}),
    "GridDropout": ({}, {"grid": (4, 6), "ratio": 0.3}),
    "GridMask": ({"d": (24, 48)}, {"d": (16, 32), "mode": "stripes"}),
    "HEStain": ({},),
    "HistogramStretch": ({"cutoff": 5.0},),
    "HorizontalFlip": ({},),
    "Hue": ({"factor": 0.3},),
    "HueSaturationValue": ({}, {"hue_shift": 90, "sat_shift": 60, "val_shift": 60}),
    "ISONoise": ({}, {"color_shift": (0.05, 0.1), "intensity": (0.5, 1.0)}),
    "Identity": ({},),
    "Illumination": (
        {"intensity": (0.2, 0.4)},
        {"mode": "corner", "intensity": (0.2, 0.4)},
        {"mode": "gaussian", "intensity": (0.2, 0.4)},
    ),
    "Invert": ({},),
    "JPEG": ({"quality": (20, 60)}, {"quality": (1, 8)}),
    "KorniaModule": (),
    "LongestMaxSize": ({"max_size": 96},),
    "MedianBlur": ({}, {"kernel_size": 9}),
    "MixUp": ({"num_classes": 4},),
    "Mosaic": ({"num_classes": 4},),
    "MotionBlur": ({"kernel_size": (9, 15)},),
    "MultiplicativeNoise": (
        {"multiplier": (0.5, 1.5)},
        {"multiplier": (0.6, 1.4), "elementwise": True},
    ),
    "Normalize": ({},),
    "NormalizePerImage": ({"by": "min_max"},),
    "OneOf": ({"operations": _PARTS},),
    "OpticalDistortion": (
        {"distort_limit": (-0.6, 0.6)},
        {"mode": "fisheye", "distort_limit": (-0.6, 0.6)},
    ),
    "Pad": ({"padding": 16}, {"padding": (24, 8), "padding_mode": "reflect"}),
    "PadIfNeeded": ({"size": (112, 160), "position": "random", "fill": 0.5},),
    "Perspective": ({"scale": (0.1, 0.2)},),
    "PiecewiseAffine": ({},),
    "PixelDropout": ({"dropout_prob": 0.1}, {"dropout_prob": 0.2, "per_channel": True}),
    "PlanckianJitter": ({}, {"mode": "cied"}),
    "PlasmaBrightnessContrast": ({},),
    "PlasmaShadow": ({},),
    "Posterize": ({"bits": 2}, {"bits": (1, 6)}),
    "RGBShift": ({}, {"r_shift": 0.3, "g_shift": 0.3, "b_shift": 0.3}),
    "RandAugment": ({}, {"num_ops": 3, "magnitude": 20}),
    "RandomAffine": ({"degrees": 30, "translate": (0.1, 0.1), "scale": (0.7, 1.2), "shear": 15},),
    "RandomApply": ({"operations": _PARTS[:2], "p": 0.5},),
    "RandomBrightnessContrast": ({}, {"brightness_limit": 0.5, "contrast_limit": 0.5}),
    "RandomCrop": ({"size": (64, 64)}, {"size": (96, 128), "padding": 24}),
    "RandomCropFromBorders": (
        {"crop_left": 0.3, "crop_right": 0.3, "crop_top": 0.3, "crop_bottom": 0.3},
    ),
    "RandomErasing": ({}, {"scale": (0.1, 0.4), "value": "random"}),
    "RandomGaussianBlur": ({},),
    "RandomGridShuffle": ({}, {"grid": (6, 8)}),
    "RandomOrder": ({"operations": [ColorJitter(hue=0.4), Solarize(p=1.0), GaussianBlur(9)]},),
    "RandomPerspective": ({}, {"distortion_scale": 0.9, "fill": 0.5}),
    "RandomPhotometricDistort": ({},),
    "RandomResize": ({"min_size": 48, "max_size": 120},),
    "RandomResizedCrop": ({"size": 96}, {"size": 96, "scale": (0.5, 1.0), "ratio": (1.0, 1.0)}),
    "RandomRotate90": ({},),
    "RandomRotation": ({"degrees": 40}, {"degrees": 40, "expand": True}),
    "RandomScale": ({"scale": (0.5, 1.5)},),
    "RandomShortestSize": ({"min_size": (48, 72, 96, 120)},),
    "RandomSizedCrop": ({"min_max_height": (40, 90), "size": 96},),
    "RandomToneCurve": ({"scale": 0.3}, {"scale": 0.3, "per_channel": True}),
    "RandomZoomOut": ({"side_range": (1.0, 2.0)},),
    "Resize": ({"size": (96, 96)}, {"size": 48}),
    "RingingOvershoot": ({},),
    "Rotate": ({}, {"limit": 45, "crop_border": True}),
    "SafeRotate": ({},),
    "SaltAndPepper": ({}, {"amount": (0.2, 0.3)}),
    "SanitizeBoundingBoxes": (),
    "Saturation": ({"factor": 0.9},),
    "ScaleJitter": ({"target_size": (96, 128), "scale_range": (0.4, 1.5)},),
    "Sharpen": ({}, {"alpha": (0.8, 1.0), "lightness": (1.0, 1.5)}),
    "Sharpness": ({"factor": 4.0},),
    "ShotNoise": ({},),
    "SmallestMaxSize": ({"max_size": 64},),
    "Solarize": ({}, {"threshold": (0.2, 0.8)}),
    "SomeOf": ({"operations": _PARTS, "n": 2},),
    "SomeOfRepeated": ({"operations": [*_PARTS[:2], HorizontalFlip(p=1.0)], "n": 2},),
    "Spatter": ({}, {"mode": "mud"}),
    "SpeedJitter": (),
    "Superpixels": ({"p_replace": (0.5, 1.0)}, {"p_replace": (1.0, 1.0), "n_segments": (300, 300)}),
    "TemporalReverse": (),
    "ThinPlateSpline": ({},),
    "ToDtype": (),
    "ToSepia": ({},),
    "TorchvisionTransform": (),
    "Transpose": ({},),
    "TrivialAugmentWide": ({},),
    "UnsharpMask": ({"alpha": (0.6, 1.0), "threshold": 0.0},),
    "VerticalFlip": ({},),
    "WebP": ({"quality": (20, 60)}, {"quality": (1, 8)}),
    "XYMasking": (
        {
            "num_masks_x": (1, 3),
            "num_masks_y": (1, 3),
            "mask_x_length": (8, 20),
            "mask_y_length": (8, 20),
        },
    ),
    "ZoomBlur": ({},),
}
"""Arguments by operation. `p` is 1 unless it is given. No arguments: what it does is not to be seen in a picture."""

PRESETS_SHOWN: dict[str, dict[str, Any]] = {
    "deit3": {"size": 96},
    "detection": {"size": 128},
    "dino": {"size": 96, "local_size": 48, "num_local": 4},
    "imagenet_eval": {"size": 96, "resize": 110},
    "imagenet_train": {"size": 96},
    "imagenet_train_jitter": {"size": 96},
    "segmentation": {"size": 96, "base_size": 104},
    "simclr": {"size": 96},
    "video_eval": {"size": 96},
    "video_test": {"size": 96},
    "video_train": {"size": 96, "shorter": (100, 130)},
}
"""Arguments by preset. What a video's preset does to a picture it does to every frame of a clip."""


@dataclass(frozen=True)
class Family:
    """A page of the gallery.

    Attributes:
        title: What its operations have in common.
        modules: Where they are defined, below `gpu_aug.ops`.
    """

    title: str
    modules: tuple[str, ...]


FAMILIES = {
    "crops": Family(
        "Crops and borders",
        ("geometric.crops", "geometric.resized_crops", "geometric.pads"),
    ),
    "sizes": Family("Sizes", ("geometric.resizes", "geometric.random_resizes")),
    "turns": Family(
        "Flips, rotations and perspective",
        ("geometric.flips", "geometric.rotate", "geometric.affine", "geometric.perspective"),
    ),
    "distortions": Family(
        "Distortions", ("geometric.distortion", "geometric.elastic", "geometric.control_points")
    ),
    "factors": Family("Brightness, contrast and colour", ("color.jitter", "color.adjust")),
    "tables": Family("Tone curves and channels", ("color.lookup_tables", "color.matrices")),
    "light": Family(
        "Light, stains and normalisation",
        ("color.shading", "color.stains", "color.image_matrices", "color.normalize"),
    ),
    "blur": Family(
        "Blur and sharpening",
        ("blur.blurs", "blur.median", "blur.lens", "blur.edges"),
    ),
    "noise": Family(
        "Noise and compression",
        ("noise.noise", "noise.sensor", "noise.spatter", "noise.superpixels", "noise.compression"),
    ),
    "dropout": Family(
        "Dropout and shuffled tiles", ("dropout.dropout", "dropout.erase", "geometric.grids")
    ),
    "mixing": Family("Mixing samples", ("mix",)),
    "policies": Family("Policies and choices", ("policy.policy", "combine", "identity")),
    "others": Family(
        "Boxes, frames and other libraries",
        ("boxes", "temporal", "foreign.transforms", "foreign.function"),
    ),
}
"""The pages, by name, in their order."""


def operations(family: Family) -> list[str]:
    """Return the names of a family's operations, as they stand in the code."""
    found = []
    for module in family.modules:
        for name, made in Operation._classes.items():
            if made.__module__ == f"gpu_aug.ops.{module}" and name in gpu_aug.__all__:
                found.append(name)
    return found


def make(name: str, arguments: dict[str, Any]) -> Operation:
    """Make an operation as it is shown: for all images, unless `p` is given."""
    kind = getattr(gpu_aug, name)
    always = {"p": 1.0} if "p" in kind.__dataclass_fields__ and "p" not in arguments else {}
    made: Operation = kind(**arguments, **always)
    return made
