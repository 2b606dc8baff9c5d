"""List the transforms of Albumentations' image benchmark, each written for the libraries that the original compares."""

import cv2
import torch

from bench.published.operations import OPS, Op

LEFT_OUT = {
    "EnhanceDetail": "only in AlbumentationsX",
    "EnhanceEdge": "only in AlbumentationsX",
    "Rain": "no operation of ours",
    "Snow": "no operation of ours",
}
"""The transforms of the original without a row here, and the reasons."""

_BY_NAME = {op.name: op for op in OPS}
_LINEAR, _NEAREST = cv2.INTER_LINEAR, cv2.INTER_NEAREST
# Torchvision and Kornia shift by shares of the image: the original converts pixels for images of 512x512.
_SHIFT = (20 / 512, 20 / 512)
_PHOTOMETRIC = ((0.875, 1.125), (0.5, 1.5), (0.5, 1.5), (-0.05, 0.05))

ALBUMENTATIONS_OPS = (
    Op(
        "Affine",
        None,
        lambda v2: v2.RandomAffine(25, _SHIFT, (2, 2), (10, 15), v2.InterpolationMode.BILINEAR),
        lambda alb: alb.Affine(
            scale=(2.0, 2.0),
            translate_px={"x": (20, 20), "y": (20, 20)},
            rotate=(-25, 25),
            shear={"x": (10, 10), "y": (15, 15)},
            interpolation=_LINEAR,
            p=1,
        ),
        lambda kor: kor.RandomAffine(25.0, _SHIFT, (2.0, 2.0), (10.0, 15.0), p=1.0),
    ),
    Op(
        "AutoContrast",
        None,
        lambda v2: v2.RandomAutocontrast(p=1),
        lambda alb: alb.AutoContrast(method="pil", p=1),
        lambda kor: kor.RandomAutoContrast(p=1.0),
    ),
    Op(
        "Blur",
        None,
        None,
        lambda alb: alb.Blur((5, 5), p=1),
        lambda kor: kor.RandomBoxBlur((5, 5), "constant", p=1.0),
    ),
    Op(
        "Brightness",
        None,
        lambda v2: v2.ColorJitter(brightness=0.2),
        lambda alb: alb.RandomBrightnessContrast((0.2, 0.2), (0.0, 0.0), p=1),
        lambda kor: kor.RandomBrightness((1.2, 1.2), p=1.0),
    ),
    Op(
        "CLAHE",
        None,
        None,
        lambda alb: alb.CLAHE((1, 4), (8, 8), p=1),
        lambda kor: kor.RandomClahe((1.0, 4.0), (8, 8), p=1.0),
    ),
    Op(
        "ChannelDropout",
        None,
        None,
        lambda alb: alb.ChannelDropout(p=1),
        lambda kor: kor.RandomChannelDropout(p=1.0),
    ),
    Op(
        "ChannelShuffle",
        None,
        lambda v2: v2.RandomChannelPermutation(),
        lambda alb: alb.ChannelShuffle(p=1),
        lambda kor: kor.RandomChannelShuffle(p=1.0),
    ),
    Op(
        "ColorJiggle",
        None,
        lambda v2: v2.ColorJitter(*_PHOTOMETRIC),
        lambda alb: alb.ColorJitter(*_PHOTOMETRIC, p=1),
        lambda kor: kor.ColorJiggle(*_PHOTOMETRIC, p=1.0),
    ),
    Op(
        "ColorJitter",
        None,
        lambda v2: v2.ColorJitter(0.5, 1.5, 1.5, 0.5),
        lambda alb: alb.ColorJitter((0.5, 0.5), (1.5, 1.5), (1.5, 1.5), (0.5, 0.5), p=1),
        lambda kor: kor.ColorJitter(0.5, 1.5, 1.5, 0.5, p=1.0),
    ),
    Op(
        "Contrast",
        None,
        lambda v2: v2.ColorJitter(contrast=0.2),
        lambda alb: alb.RandomBrightnessContrast((0.0, 0.0), (0.2, 0.2), p=1),
        lambda kor: kor.RandomContrast((1.2, 1.2), p=1.0),
    ),
    Op(
        "CornerIllumination",
        None,
        None,
        lambda alb: alb.Illumination(mode="corner", p=1),
        lambda kor: kor.RandomLinearCornerIllumination((0.01, 0.2), p=1.0),
    ),
    Op(
        "Elastic",
        None,
        lambda v2: v2.ElasticTransform(50.0, 5.0),
        lambda alb: alb.ElasticTransform(50.0, 5.0, interpolation=_LINEAR, same_dxdy=True, p=1),
        lambda kor: kor.RandomElasticTransform(sigma=(5.0, 5.0), alpha=(50.0, 50.0), p=1.0),
    ),
    Op(
        "Equalize",
        None,
        lambda v2: v2.RandomEqualize(p=1),
        lambda alb: alb.Equalize(mode="pil", p=1),
        lambda kor: kor.RandomEqualize(p=1.0),
    ),
    Op(
        "Erasing",
        None,
        lambda v2: v2.RandomErasing(1, (0.02, 0.33), (0.3, 3.3)),
        lambda alb: alb.Erasing((0.02, 0.33), (0.3, 3.3), p=1),
        lambda kor: kor.RandomErasing((0.02, 0.33), (0.3, 3.3), 0.0, p=1.0),
    ),
    Op(
        "GaussianBlur",
        None,
        lambda v2: v2.GaussianBlur((5, 5), (2.0, 2.0)),
        lambda alb: alb.GaussianBlur((5, 5), (2.0, 2.0), p=1),
        lambda kor: kor.RandomGaussianBlur((5, 5), (2.0, 2.0), p=1.0),
    ),
    Op(
        "GaussianIllumination",
        None,
        None,
        lambda alb: alb.Illumination(mode="gaussian", p=1),
        lambda kor: kor.RandomGaussianIllumination((0.01, 0.2), p=1.0),
    ),
    Op(
        "GaussianNoise",
        None,
        None,
        lambda alb: alb.GaussNoise((0.44, 0.44), (0.0, 0.0), per_channel=True, p=1),
        lambda kor: kor.RandomGaussianNoise(0.0, 0.44, p=1.0),
    ),
    _BY_NAME["Grayscale"],
    _BY_NAME["HorizontalFlip"],
    Op(
        "Hue",
        None,
        None,
        lambda alb: alb.HueSaturationValue(20, 0, 0, p=1),
        lambda kor: kor.RandomHue((-20 / 360, 20 / 360), p=1.0),
    ),
    _BY_NAME["Invert"],
    Op(
        "JpegCompression",
        None,
        lambda v2: v2.JPEG(50),
        lambda alb: alb.ImageCompression("jpeg", (50, 50), p=1),
        lambda kor: kor.RandomJPEG(50, p=1.0),
    ),
    Op(
        "LinearIllumination",
        None,
        None,
        lambda alb: alb.Illumination(mode="linear", angle_range=(90, 90), p=1),
        lambda kor: kor.RandomLinearIllumination((0.01, 0.2), p=1.0),
    ),
    Op(
        "LongestMaxSize",
        None,
        None,
        lambda alb: alb.LongestMaxSize(512, interpolation=_LINEAR, p=1),
        lambda kor: kor.LongestMaxSize(512, p=1.0),
    ),
    Op(
        "MedianBlur",
        None,
        None,
        lambda alb: alb.MedianBlur((5, 5), p=1),
        lambda kor: kor.RandomMedianBlur((5, 5), p=1.0),
    ),
    Op(
        "MotionBlur",
        None,
        None,
        lambda alb: alb.MotionBlur((5, 5), angle_range=(0, 360), direction_range=(-1, 1), p=1),
        lambda kor: kor.RandomMotionBlur(5, (0.0, 360.0), (-1.0, 1.0), p=1.0),
    ),
    Op(
        "OpticalDistortion",
        None,
        None,
        lambda alb: alb.OpticalDistortion(0.5, mode="fisheye", p=1),
        lambda kor: kor.RandomFisheye(
            *(torch.tensor(ends) for ends in ([-0.3, 0.3], [-0.3, 0.3], [0.9, 1.1])), p=1.0
        ),
    ),
    Op(
        "Pad",
        None,
        lambda v2: v2.Pad(10),
        lambda alb: alb.Pad(10, p=1),
    ),
    Op(
        "Perspective",
        None,
        lambda v2: v2.RandomPerspective(0.1, p=1),
        lambda alb: alb.Perspective((0.05, 0.1), interpolation=_LINEAR, p=1),
        lambda kor: kor.RandomPerspective(0.1, p=1.0),
    ),
    Op(
        "PhotoMetricDistort",
        None,
        lambda v2: v2.RandomPhotometricDistort(*_PHOTOMETRIC, p=1),
        lambda alb: alb.ColorJitter(*_PHOTOMETRIC, p=1),  # 2.0.8 lacks PhotoMetricDistort
    ),
    Op(
        "PlanckianJitter",
        None,
        None,
        lambda alb: alb.PlanckianJitter("blackbody", p=1),
        lambda kor: kor.RandomPlanckianJitter("blackbody", p=1.0),
    ),
    Op(
        "PlasmaBrightness",
        None,
        None,
        lambda alb: alb.PlasmaBrightnessContrast(contrast_range=(0.0, 0.0), roughness=0.5, p=1),
        lambda kor: kor.RandomPlasmaBrightness((0.5, 0.5), p=1.0),
    ),
    Op(
        "PlasmaContrast",
        None,
        None,
        lambda alb: alb.PlasmaBrightnessContrast(brightness_range=(0.0, 0.0), roughness=0.5, p=1),
        lambda kor: kor.RandomPlasmaContrast((0.5, 0.5), p=1.0),
    ),
    Op(
        "PlasmaShadow",
        None,
        None,
        lambda alb: alb.PlasmaShadow(roughness=0.5, p=1),
        lambda kor: kor.RandomPlasmaShadow((0.5, 0.5), p=1.0),
    ),
    _BY_NAME["Posterize 4"],
    Op(
        "RGBShift",
        None,
        None,
        lambda alb: alb.RGBShift(100, 100, 100, p=1),
        lambda kor: kor.RandomRGBShift(100 / 255, 100 / 255, 100 / 255, p=1.0),
    ),
    Op(
        "RandomCrop224",
        None,
        lambda v2: v2.RandomCrop(224, pad_if_needed=True),
        lambda alb: alb.RandomCrop(224, 224, pad_if_needed=True, p=1),
        lambda kor: kor.RandomCrop((224, 224), pad_if_needed=True, p=1.0),
    ),
    Op(
        "RandomGamma",
        None,
        None,
        lambda alb: alb.RandomGamma((120, 120), p=1),
        lambda kor: kor.RandomGamma((1.2, 1.2), p=1.0),
    ),
    Op(
        "RandomJigsaw",
        None,
        None,
        lambda alb: alb.RandomGridShuffle((4, 4), p=1),
        lambda kor: kor.RandomJigsaw((4, 4), p=1.0),
    ),
    Op(
        "RandomResizedCrop",
        None,
        lambda v2: v2.RandomResizedCrop(224),
        lambda alb: alb.RandomResizedCrop((224, 224), interpolation=_LINEAR, p=1),
        lambda kor: kor.RandomResizedCrop((224, 224), p=1.0),
    ),
    Op(
        "RandomRotate90",
        None,
        None,
        lambda alb: alb.RandomRotate90(p=1),
        lambda kor: kor.RandomRotation90((0, 3), p=1.0),
    ),
    Op(
        "Resize",
        None,
        lambda v2: v2.Resize((512, 512)),
        lambda alb: alb.Resize(512, 512, _LINEAR, p=1),
        lambda kor: kor.Resize((512, 512), p=1.0),
    ),
    Op(
        "Rotate",
        None,
        lambda v2: v2.RandomRotation(45),
        lambda alb: alb.Rotate((-45, 45), _NEAREST, p=1),
        lambda kor: kor.RandomRotation(45.0, p=1.0),
    ),
    Op(
        "SaltAndPepper",
        None,
        None,
        lambda alb: alb.SaltAndPepper((0.01, 0.06), (0.4, 0.6), p=1),
        lambda kor: kor.RandomSaltAndPepperNoise((0.01, 0.06), (0.4, 0.6), p=1.0),
    ),
    Op(
        "Saturation",
        None,
        None,
        lambda alb: alb.HueSaturationValue(0, 127.5, 0, p=1),
        lambda kor: kor.RandomSaturation((1.5, 1.5), p=1.0),
    ),
    Op(
        "Sharpen",
        None,
        lambda v2: v2.RandomAdjustSharpness(2.0, p=1),
        lambda alb: alb.Sharpen((0.2, 0.5), (0.5, 1.0), p=1),
        lambda kor: kor.RandomSharpness(2.0, p=1.0),
    ),
    Op(
        "Shear",
        None,
        None,
        lambda alb: alb.Affine(shear=(10, 10), interpolation=_LINEAR, p=1),
        lambda kor: kor.RandomShear(10.0, p=1.0),
    ),
    Op(
        "SmallestMaxSize",
        None,
        None,
        lambda alb: alb.SmallestMaxSize(512, interpolation=_LINEAR, p=1),
        lambda kor: kor.SmallestMaxSize(512, p=1.0),
    ),
    _BY_NAME["Solarize"],
    Op(
        "ThinPlateSpline",
        None,
        None,
        lambda alb: alb.ThinPlateSpline((0.5, 0.5), num_control_points=2, p=1),
        lambda kor: kor.RandomThinPlateSpline(0.5, p=1.0),
    ),
    Op(
        "Transpose",
        None,
        None,
        lambda alb: alb.Transpose(p=1),
    ),
    Op(
        "UnsharpMask",
        None,
        None,
        lambda alb: alb.UnsharpMask((3, 7), 0.0, (0.2, 0.5), 10, p=1),
    ),
    Op(
        "VerticalFlip",
        None,
        lambda v2: v2.RandomVerticalFlip(p=1),
        lambda alb: alb.VerticalFlip(p=1),
        lambda kor: kor.RandomVerticalFlip(p=1.0),
    ),
)

_JITTER = (0.4, 0.4, 0.4, 0.1)
# Of ImageNet; also the defaults of Albumentations' Normalize.
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
PIPELINES = (
    Op(
        "pipeline: crop, flip",
        None,
        lambda v2: v2.Compose([v2.RandomCrop(224, pad_if_needed=True), v2.RandomHorizontalFlip()]),
        lambda alb: alb.Compose(
            [alb.RandomCrop(224, 224, pad_if_needed=True), alb.HorizontalFlip()]
        ),
    ),
    Op(
        "pipeline: crop, resize, flip, jitter, normalise",
        None,
        lambda v2: v2.Compose(
            [
                *(v2.RandomResizedCrop(224), v2.RandomHorizontalFlip(), v2.ColorJitter(*_JITTER)),
                *(v2.ToDtype(torch.float32, scale=True), v2.Normalize(_MEAN, _STD)),
            ]
        ),
        lambda alb: alb.Compose(
            [
                *(alb.RandomResizedCrop((224, 224)), alb.HorizontalFlip()),
                *(alb.ColorJitter(*_JITTER, p=1), alb.Normalize()),
            ]
        ),
    ),
)
"""Pipelines of several transforms, as training uses them."""
