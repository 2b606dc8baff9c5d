"""What the gallery shows of every operation: with which arguments, and how large."""

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
    "AdvancedBlur": (
        {"kernel_size": (7, 11), "sigma_x": (0.5, 4.0), "sigma_y": (0.5, 4.0)},
        {"kernel_size": (15, 21), "sigma_x": (4.0, 8.0), "sigma_y": (0.5, 1.0)},
    ),
    "Affine": (
        {"rotate": (-30, 30), "scale": (0.7, 1.2)},
        {"shear": (-25, 25), "translate_percent": 0.1, "padding_mode": "reflect"},
    ),
    "AlbumentationsTransform": (),
    "AtLeastOneBBoxRandomCrop": (
        {"size": (64, 64)},
        {"size": (48, 48), "erosion_factor": 0.5},
    ),
    "AugMix": ({}, {"severity": 8}),
    "AutoAugment": ({}, {"policy": "svhn"}),
    "AutoContrast": ({},),
    "BBoxSafeRandomCrop": ({}, {"erosion_rate": 0.6}),
    "BatchFunction": (),
    "Blur": ({"kernel_size": (3, 11)}, {"kernel_size": (15, 21)}),
    "Brightness": ({"factor": 0.5}, {"factor": 0.9}),
    "CLAHE": ({"clip_limit": 4.0}, {"clip_limit": 12.0, "tile_grid_size": (4, 4)}),
    "CenterCrop": ({"size": (64, 64)}, {"size": (112, 144), "padding_mode": "reflect"}),
    "ChannelDropout": ({}, {"num_channels": 2}),
    "ChannelShuffle": ({},),
    "ChromaticAberration": (
        {"primary": (-0.2, 0.2), "secondary": (-0.4, 0.4)},
        {"primary": (-0.6, 0.6), "secondary": (-0.8, 0.8), "mode": "red_blue"},
    ),
    "ClampBoundingBoxes": (),
    "CoarseDropout": ({}, {"num_holes": (4, 8), "fill": "random"}),
    "ColorJitter": (
        {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1},
        {"brightness": 0.8, "contrast": 0.8, "saturation": 0.8, "hue": 0.2},
    ),
    "Contrast": ({"factor": 0.6}, {"factor": 0.95}),
    "CropAndPad": (
        {"percent": (-0.25, 0.25)},
        {"percent": (0.0, 0.3), "padding_mode": "reflect", "keep_size": False},
    ),
    "CutMix": ({"num_classes": 4}, {"alpha": 0.2, "num_classes": 4}),
    "D4": ({},),
    "Defocus": ({"radius": (2, 5)}, {"radius": (6, 9)}),
    "Downscale": ({}, {"scale": (0.1, 0.5), "up": "bilinear"}),
    "ElasticDistortion": ({"alpha": 300.0, "sigma": 12.0}, {"alpha": 120.0, "sigma": 5.0}),
    "ElasticTransform": ({}, {"alpha": 150.0, "sigma": 8.0, "padding_mode": "reflect"}),
    "Emboss": ({"alpha": (0.5, 1.0), "strength": (0.5, 1.5)}, {}),
    "Equalize": ({},),
    "EqualizeLuma": ({},),
    "Erasing": ({}, {"fill": "random"}),
    "FancyPCA": ({"alpha": 0.5}, {"alpha": 2.0}),
    "FixedCrop": (
        {"size": (64, 64), "position": "top_left"},
        {"size": (64, 64), "position": (20, 60)},
    ),
    "FrameDrop": (),
    "Gamma": ({"gamma": (0.4, 2.5)}, {}),
    "GaussNoise": ({}, {"std_range": (0.1, 0.2), "per_channel": False}),
    "GaussianBlur": ({"kernel_size": 13}, {"kernel_size": 23, "sigma": (3.0, 5.0)}),
    "GaussianNoise": ({}, {"sigma": 0.3}),
    "GlassBlur": ({}, {"max_delta": 2, "iterations": 1}),
    "Grayscale": ({}, {"method": "max"}),
    "GridDistortion": ({}, {"num_steps": 3, "distort_limit": 0.6, "padding_mode": "reflect"}),
    "GridDropout": ({}, {"grid": (4, 6), "ratio": 0.3}),
    "GridMask": ({"d": (24, 48)}, {"d": (16, 32), "mode": "stripes"}),
    "HEStain": ({}, {"intensity_scale": (0.3, 2.0), "intensity_shift": (-0.4, 0.4)}),
    "HistogramStretch": ({"cutoff": 5.0}, {"cutoff": 20.0}),
    "HorizontalFlip": ({},),
    "Hue": ({"factor": 0.3}, {"factor": 0.05}),
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
    "LongestMaxSize": ({"max_size": 96}, {"max_size": 48}),
    "MedianBlur": ({}, {"kernel_size": 9}),
    "MixUp": ({"num_classes": 4}, {"alpha": 0.2, "num_classes": 4}),
    "Mosaic": ({"num_classes": 4}, {"center_range": (0.1, 0.9), "num_classes": 4}),
    "MotionBlur": ({"kernel_size": (9, 15)}, {"kernel_size": (21, 31)}),
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
    "PadIfNeeded": (
        {"size": (112, 160), "position": "random", "fill": 0.5},
        {"size": (128, 176), "padding_mode": "reflect"},
    ),
    "Perspective": ({"scale": (0.1, 0.2)}, {"scale": (0.25, 0.35), "fill": 0.5}),
    "PiecewiseAffine": ({}, {"scale": (0.06, 0.1)}),
    "PixelDropout": ({"dropout_prob": 0.1}, {"dropout_prob": 0.2, "per_channel": True}),
    "PlanckianJitter": ({}, {"mode": "cied"}),
    "PlasmaBrightnessContrast": (
        {},
        {"brightness": (-0.8, 0.8), "contrast": (-0.8, 0.8), "roughness": 1.5},
    ),
    "PlasmaShadow": ({}, {"intensity": (0.7, 0.9), "roughness": 1.5}),
    "Posterize": ({"bits": 2}, {"bits": (1, 6)}),
    "RGBShift": ({}, {"r_shift": 0.3, "g_shift": 0.3, "b_shift": 0.3}),
    "RandAugment": ({}, {"num_ops": 3, "magnitude": 20}),
    "RandomAffine": (
        {"degrees": 30, "translate": (0.1, 0.1), "scale": (0.7, 1.2), "shear": 15},
        {"degrees": 5, "translate": (0.3, 0.3), "padding_mode": "reflect"},
    ),
    "RandomApply": ({"operations": _PARTS[:2], "p": 0.5},),
    "RandomBrightnessContrast": ({}, {"brightness_limit": 0.5, "contrast_limit": 0.5}),
    "RandomCrop": ({"size": (64, 64)}, {"size": (96, 128), "padding": 24}),
    "RandomCropFromBorders": (
        {"crop_left": 0.3, "crop_right": 0.3, "crop_top": 0.3, "crop_bottom": 0.3},
        {},
    ),
    "RandomCropNearBBox": ({}, {"max_part_shift": (0.8, 1.0)}),
    "RandomErasing": ({}, {"scale": (0.1, 0.4), "value": "random"}),
    "RandomGaussianBlur": ({}, {"sigma": (4.0, 8.0)}),
    "RandomGridShuffle": ({}, {"grid": (6, 8)}),
    "RandomIoUCrop": (
        {"sampler_options": (0.0, 0.1)},
        {"sampler_options": (0.3,), "max_scale": 0.6},
    ),
    "RandomOrder": ({"operations": [ColorJitter(hue=0.4), Solarize(p=1.0), GaussianBlur(9)]},),
    "RandomPerspective": ({}, {"distortion_scale": 0.9, "fill": 0.5}),
    "RandomPhotometricDistort": (
        {},
        {
            "brightness": (0.4, 1.6),
            "contrast": (0.2, 2.0),
            "saturation": (0.0, 2.5),
            "hue": (-0.3, 0.3),
        },
    ),
    "RandomResize": ({"min_size": 48, "max_size": 120}, {"min_size": 24, "max_size": 60}),
    "RandomResizedCrop": ({"size": 96}, {"size": 96, "scale": (0.5, 1.0), "ratio": (1.0, 1.0)}),
    "RandomRotate90": ({},),
    "RandomRotation": ({"degrees": 40}, {"degrees": 40, "expand": True}),
    "RandomScale": ({"scale": (0.5, 1.5)}, {"scale": (0.25, 0.6)}),
    "RandomShortestSize": ({"min_size": (48, 72, 96, 120)}, {"min_size": (24, 36)}),
    "RandomSizedBBoxSafeCrop": ({"size": (96, 96)}, {"size": (48, 96), "erosion_rate": 0.6}),
    "RandomSizedCrop": (
        {"min_max_height": (40, 90), "size": 96},
        {"min_max_height": (20, 40), "size": 96},
    ),
    "RandomToneCurve": ({"scale": 0.3}, {"scale": 0.3, "per_channel": True}),
    "RandomZoomOut": ({"side_range": (1.0, 2.0)}, {"side_range": (1.2, 1.3), "fill": 0.5}),
    "Resize": ({"size": (96, 96)}, {"size": 48}),
    "RingingOvershoot": ({}, {"kernel_size": (15, 21), "cutoff": (0.4, 0.6)}),
    "Rotate": ({}, {"limit": 45, "crop_border": True}),
    "SafeRotate": ({}, {"limit": 20}),
    "SaltAndPepper": ({}, {"amount": (0.2, 0.3)}),
    "SanitizeBoundingBoxes": (),
    "Saturation": ({"factor": 0.9}, {"factor": 0.3}),
    "ScaleJitter": (
        {"target_size": (96, 128), "scale_range": (0.4, 1.5)},
        {"target_size": (96, 128)},
    ),
    "Sharpen": ({}, {"alpha": (0.8, 1.0), "lightness": (1.0, 1.5)}),
    "Sharpness": ({"factor": 4.0}, {"factor": 12.0}),
    "ShotNoise": ({}, {"scale_range": (0.6, 1.0)}),
    "SmallestMaxSize": ({"max_size": 64}, {"max_size": 32}),
    "Solarize": ({}, {"threshold": (0.2, 0.8)}),
    "SomeOf": ({"operations": _PARTS, "n": 2}, {"operations": _PARTS, "n": 4}),
    "SomeOfRepeated": ({"operations": [*_PARTS[:2], HorizontalFlip(p=1.0)], "n": 2},),
    "Spatter": ({}, {"mode": "mud"}),
    "SpeedJitter": (),
    "Superpixels": ({"p_replace": (0.5, 1.0)}, {"p_replace": (1.0, 1.0), "n_segments": (300, 300)}),
    "TemporalReverse": (),
    "ThinPlateSpline": ({}, {"scale_range": (0.05, 0.1)}),
    "ToDtype": (),
    "ToSepia": ({},),
    "TorchvisionTransform": (),
    "Transpose": ({},),
    "TrivialAugmentWide": ({},),
    "UnsharpMask": (
        {"alpha": (0.6, 1.0), "threshold": 0.0},
        {"kernel_size": (13, 21), "alpha": (0.8, 1.0), "threshold": 0.0},
    ),
    "VerticalFlip": ({},),
    "WebP": ({"quality": (20, 60)}, {"quality": (1, 8)}),
    "XYMasking": (
        {
            "num_masks_x": (1, 3),
            "num_masks_y": (1, 3),
            "mask_x_length": (8, 20),
            "mask_y_length": (8, 20),
        },
        {"num_masks_x": 1, "num_masks_y": 1, "mask_x_length": 40, "mask_y_length": 30},
    ),
    "ZoomBlur": ({}, {"max_factor": (1.3, 1.6)}),
}
"""Arguments by operation, several where it has a strength. `p` is 1 unless it is given.

No arguments: what it does is not to be seen in a picture.
"""

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


def make(name: str, arguments: dict[str, Any]) -> Operation:
    """Make an operation as it is shown: for all images, unless `p` is given."""
    kind = getattr(gpu_aug, name)
    always = {"p": 1.0} if "p" in kind.__dataclass_fields__ and "p" not in arguments else {}
    made: Operation = kind(**arguments, **always)
    return made
