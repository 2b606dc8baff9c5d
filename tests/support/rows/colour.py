"""Operations that change values: rows of the agreement table."""

from collections.abc import Callable
from typing import Any

import albumentations as A
import cv2
import numpy as np
import torch
from albumentations.augmentations.pixel.functional import generate_plasma_pattern
from PIL import Image, ImageEnhance, ImageOps
from torchvision.transforms.v2 import functional as tv

from gpu_aug import (
    CLAHE,
    AutoContrast,
    Brightness,
    ChannelDropout,
    ChannelShuffle,
    ColorJitter,
    Contrast,
    Equalize,
    EqualizeLuma,
    FancyPCA,
    Gamma,
    Grayscale,
    HEStain,
    HistogramStretch,
    Hue,
    HueSaturationValue,
    Illumination,
    Invert,
    Normalize,
    NormalizePerImage,
    PlanckianJitter,
    PlasmaBrightnessContrast,
    PlasmaShadow,
    Posterize,
    RandomApply,
    RandomBrightnessContrast,
    RandomPhotometricDistort,
    RandomToneCurve,
    RGBShift,
    Saturation,
    Sharpness,
    Solarize,
    ToDtype,
    ToSepia,
)
from gpu_aug.random_fields import uniform_field
from tests.support.rows.row import Oracle, Row, inject, interleaved, planar


def jitter(x: torch.Tensor, p: dict[str, Any]) -> torch.Tensor:
    """Torchvision's four steps in the drawn order."""
    functions = [tv.adjust_brightness, tv.adjust_contrast, tv.adjust_saturation, tv.adjust_hue]
    factors = [p["brightness"], p["contrast"], p["saturation"], p["hue"]]
    for function in p["order"]:
        x = functions[function](x, float(factors[function]))
    return x


def distort(x: torch.Tensor, leaves: list[dict[str, Any]]) -> torch.Tensor:
    """Torchvision's steps of RandomPhotometricDistort."""
    functions = [tv.adjust_brightness, tv.adjust_contrast, tv.adjust_saturation, tv.adjust_hue]
    for function, p in zip([*functions, tv.adjust_contrast], leaves[:5], strict=True):
        x = function(x, float(p["factor"])) if p["apply"] else x
    last = leaves[5]
    return x[last["matrix"][:, :3].argmax(axis=1)] if last["apply"] else x


def on_bytes(function: Callable[[np.ndarray, dict[str, Any]], Any]) -> Oracle:
    """A function on uint8 [H, W, 3], with its result divided by 255 if it is uint8."""

    def oracle(x: torch.Tensor, p: dict[str, Any]) -> torch.Tensor:
        whole = x.mul(255).round().byte().permute(1, 2, 0).contiguous().numpy()
        result = np.asarray(function(whole, p))
        if result.dtype == np.uint8:
            result = result.astype(np.float32) / 255
        return planar(result)

    return oracle


def pillow(function: Callable[[Image.Image, dict[str, Any]], Image.Image]) -> Oracle:
    """A function of Pillow."""
    return on_bytes(lambda image, p: function(Image.fromarray(image), p))


def theirs(call: Any, *names: str, on: str = "float", **renamed: str) -> Oracle:
    """Albumentations' own class with the drawn parameters, on float32 or on uint8."""

    def apply(image: np.ndarray, p: dict[str, Any]) -> np.ndarray:
        drawn = {name: p[name] for name in names} | {to: p[of] for to, of in renamed.items()}
        plain = {name: v.item() if np.ndim(v) == 0 else v for name, v in drawn.items()}
        shown = {"shape": image.shape, **plain}
        return call.apply_with_params(shown, image=image)["image"]

    if on == "uint8":
        return on_bytes(apply)

    def oracle(x: torch.Tensor, p: dict[str, Any]) -> torch.Tensor:
        return planar(apply(interleaved(x), p))

    return oracle


def matrix(make: Callable[[np.ndarray], tuple[Any, dict[str, Any]]]) -> Oracle:
    """Albumentations' class with parameters read back from the drawn matrix."""

    def oracle(x: torch.Tensor, p: dict[str, Any]) -> torch.Tensor:
        call, params = make(p["matrix"])
        return inject(call, x, **params)

    return oracle


def smallest(x: np.ndarray) -> np.ndarray:
    """Another number of bits."""
    return np.maximum(x - 1, 1)


def nudged(x: np.ndarray) -> np.ndarray:
    """A matrix with slightly other shifts."""
    return x + np.array([0, 0, 0, 1e-5])


def by_mean(x: torch.Tensor, p: dict[str, Any]) -> torch.Tensor:
    """Albumentations' formula, with the mean that it takes of the whole image."""
    mean = np.mean(interleaved(x))
    params = {"alpha": float(p["alpha"]), "beta": float(p["beta"] * mean)}
    return inject(A.RandomBrightnessContrast(), x, **params)


def illumination(mode: str, **names: str) -> Oracle:
    return theirs(A.Illumination(mode=mode), "intensity", **names)


def linear(x: torch.Tensor, p: dict[str, Any]) -> torch.Tensor:
    """Albumentations' gradient, by the angle that the slope comes from."""
    angle = float(np.degrees(np.arctan2(p["slope"][1], p["slope"][0]))) % 360
    return illumination("linear", angle="angle")(x, p | {"angle": np.array(angle)})


def fancy_pca(x: torch.Tensor, p: dict[str, Any]) -> torch.Tensor:
    """Albumentations' class, with the signs of its axes turned to ours."""
    _, axes = np.linalg.eigh(np.cov(x.flatten(1).numpy()))
    axes = axes[:, ::-1]
    signs = np.sign(axes[np.abs(axes).argmax(axis=0), range(3)])
    return theirs(A.FancyPCA(), alpha_vector="alpha")(x, {"alpha": p["stretch"] * signs})


class Replay:
    """Gives Albumentations the uniform numbers of our random fields."""

    def __init__(self, key: np.ndarray) -> None:
        self.key, self.calls = key[None], 0

    def uniform(self, low: float, high: float, shape: tuple[int, int]) -> np.ndarray:
        """As numpy's generator."""
        field = uniform_field(self.key, shape, torch.device("cpu"), stream=self.calls)[0].numpy()
        self.calls += 1
        return low + (high - low) * field.astype(np.float64)


def clouds(call: Any, **renamed: str) -> Oracle:
    """Albumentations' class with the clouds that it makes of our numbers."""

    def oracle(x: torch.Tensor, p: dict[str, Any]) -> torch.Tensor:
        pattern = generate_plasma_pattern(tuple(x.shape[1:]), call.roughness, Replay(p["key"]))
        return theirs(call, plasma_pattern="pattern", **renamed)(x, p | {"pattern": pattern})

    return oracle


def equalized(image: np.ndarray, _: dict[str, Any]) -> np.ndarray:
    return cv2.merge([cv2.equalizeHist(channel) for channel in cv2.split(image)])


GATE = {"apply": 1}

ROWS: dict[str, Row] = {
    # torchvision's gray weighs red with 0.2989 instead of 0.299.
    "jitter": Row(
        ColorJitter(0.4, 0.4, 0.4, 0.1, p=0.8),
        {"hue": 0.0005, "contrast": 0.0005, "brightness": 0.0005, "saturation": 0.0005},
        jitter,
        0.05,
    ),
    "jitter, wide": Row(
        ColorJitter(1.0, 1.0, 1.0, 0.5),
        {"hue": 0.0005, "contrast": 0.0005, "brightness": 0.0005, "saturation": 0.0005},
    ),
    "brightness": Row(
        Brightness(0.5),
        {"factor": 0.0005},
        lambda x, p: tv.adjust_brightness(x, float(p["factor"])),
        0.001,
    ),
    "contrast": Row(
        Contrast(0.5),
        {"factor": 0.0005},
        lambda x, p: tv.adjust_contrast(x, float(p["factor"])),
        0.05,
    ),
    "saturation": Row(
        Saturation(0.5),
        {"factor": 0.0005},
        lambda x, p: tv.adjust_saturation(x, float(p["factor"])),
        0.05,
    ),
    "hue": Row(
        Hue(0.3), {"factor": 0.0005}, lambda x, p: tv.adjust_hue(x, float(p["factor"])), 0.001
    ),
    "photometric distort": Row(RandomPhotometricDistort(), GATE, distort, 0.05),
    "gamma": Row(
        Gamma((0.5, 2.0), p=0.8),
        {"gamma": 0.0005},
        lambda x, p: tv.adjust_gamma(x, float(p["gamma"])),
        0.001,
    ),
    "gray": Row(Grayscale(0.5), GATE, lambda x, _: tv.rgb_to_grayscale(x, 3), 0.03),
    "gray, average": Row(
        Grayscale(0.5, "average"), GATE, lambda x, _: x.mean(0).expand(3, -1, -1), 0.001
    ),
    "gray, max": Row(
        Grayscale(0.5, "max"), GATE, lambda x, _: x.max(0).values.expand(3, -1, -1), 0.0
    ),
    "gray, desaturation": Row(
        Grayscale(0.5, "desaturation"),
        GATE,
        lambda x, _: ((x.max(0).values + x.min(0).values) / 2).expand(3, -1, -1),
        0.001,
    ),
    "gray, from Lab": Row(
        Grayscale(0.5, "from_lab"),
        GATE,
        on_bytes(lambda image, _: cv2.cvtColor(image, cv2.COLOR_RGB2LAB)[..., [0, 0, 0]]),
        0.001,
    ),
    "invert": Row(Invert(), GATE, lambda x, _: tv.invert(x), 0.001),
    "solarize": Row(
        Solarize((0.1, 0.9), p=0.8),
        {"threshold": 0.004},
        pillow(lambda image, p: ImageOps.solarize(image, float(p["threshold"]) * 255)),
        0.001,
    ),
    "sharpness": Row(
        Sharpness((0.0, 3.0), p=0.8),
        {"factor": 0.0005},
        lambda x, p: tv.adjust_sharpness(x, float(p["factor"])),
        0.001,
    ),
    "sharpness as Pillow": Row(
        Sharpness((0.0, 3.0), p=0.8),
        {"factor": 0.0005},
        pillow(lambda image, p: ImageEnhance.Sharpness(image).enhance(float(p["factor"]))),
        3.0,  # Pillow rounds the smoothed image, whose error the factor enlarges: 1.9
    ),
    "posterize": Row(
        Posterize((1, 7), p=0.8),
        {"bits": smallest},
        pillow(lambda image, p: ImageOps.posterize(image, int(p["bits"]))),
        0.001,
    ),
    "posterize, per channel": Row(
        Posterize(((1, 3), (3, 5), (2, 7))),
        {"bits": smallest},
        theirs(A.Posterize(), num_bits="bits", on="uint8"),
        0.001,
    ),
    "equalize": Row(Equalize(), GATE, pillow(lambda image, _: ImageOps.equalize(image)), 0.001),
    "equalize as OpenCV": Row(Equalize(method="opencv"), GATE, on_bytes(equalized), 0.001),
    "equalize, inclusive": Row(
        Equalize(method="inclusive"),
        GATE,
        lambda x, p: theirs(A.Equalize(mode="pil"), on="uint8", mask="none")(
            x, p | {"none": np.array(None)}
        ),
        0.001,
    ),
    "equalize luma": Row(
        EqualizeLuma(method="opencv"),
        GATE,
        lambda x, p: theirs(A.Equalize(by_channels=False), on="uint8", mask="none")(
            x, p | {"none": np.array(None)}
        ),
        0.001,
    ),
    "equalize luma, inclusive": Row(EqualizeLuma(method="inclusive")),
    "autocontrast": Row(
        AutoContrast(), GATE, pillow(lambda image, _: ImageOps.autocontrast(image)), 0.001
    ),
    "histogram stretch": Row(HistogramStretch(), GATE, theirs(A.AutoContrast(), on="uint8"), 0.001),
    "histogram stretch, linear": Row(
        HistogramStretch(cutoff=7.5, method="linear"),
        GATE,
        theirs(A.AutoContrast(cutoff=7.5, method="pil"), on="uint8"),
        0.001,
    ),
    "histogram stretch, cut": Row(
        HistogramStretch(cutoff=5, ignore=2),
        GATE,
        theirs(A.AutoContrast(cutoff=5, ignore=2), on="uint8"),
        0.001,
    ),
    "tone curve": Row(
        RandomToneCurve(0.2),
        {"low": 0.01, "high": 0.01},
        lambda x, p: theirs(A.RandomToneCurve(), on="uint8", low_y="low", high_y="high")(
            x, {"low": p["low"][0], "high": p["high"][0]}
        ),
        0.001,
    ),
    "tone curve, per channel": Row(
        RandomToneCurve(0.2, per_channel=True),
        {"low": 0.01, "high": 0.01},
        theirs(A.RandomToneCurve(), on="uint8", low_y="low", high_y="high"),
        0.001,
    ),
    "brightness and contrast": Row(
        RandomBrightnessContrast(0.4, 0.4),
        {"matrix": nudged},
        matrix(
            lambda m: (
                A.RandomBrightnessContrast(),
                {"alpha": float(m[0, 0]), "beta": float(m[0, 3])},
            )
        ),
        0.001,
    ),
    "brightness of the mean": Row(
        RandomBrightnessContrast(0.4, 0.4, brightness_by_max=False),
        {"alpha": 1e-4, "beta": 1e-4},
        by_mean,
        0.001,
    ),
    "RGB shift": Row(
        RGBShift(0.2, 0.1, 0.3),
        {"matrix": nudged},
        matrix(lambda m: (A.RGBShift(), {"noise_map": m[:, 3]})),
        0.001,
    ),
    "channel shuffle": Row(
        ChannelShuffle(),
        GATE,
        matrix(lambda m: (A.ChannelShuffle(), {"channels_shuffled": m[:, :3].argmax(1).tolist()})),
        0.0,
    ),
    "channel dropout": Row(
        ChannelDropout((1, 2), fill=0.2),
        {"matrix": nudged},
        matrix(
            lambda m: (
                A.ChannelDropout(fill=0.2),
                {"channels_to_drop": np.flatnonzero(m[:, :3].sum(1) == 0)},
            )
        ),
        0.001,
    ),
    "sepia": Row(ToSepia(), {"matrix": nudged}, matrix(lambda _: (A.ToSepia(), {})), 0.001),
    "light": Row(
        PlanckianJitter(), {"matrix": nudged}, theirs(A.PlanckianJitter(), "temperature"), 0.001
    ),
    "light of day": Row(
        PlanckianJitter("cied", sampling_method="gaussian"),
        {"matrix": nudged},
        theirs(A.PlanckianJitter(mode="cied"), "temperature"),
        0.001,
    ),
    "fancy PCA": Row(FancyPCA(0.5), {"stretch": 0.001}, fancy_pca, 0.01),
    "hue, saturation, value": Row(
        HueSaturationValue(40, 60, 60),
        {"hue_shift": 4, "sat_shift": 4, "val_shift": 4},
        theirs(A.HueSaturationValue(), "hue_shift", "sat_shift", "val_shift", on="uint8"),
        1.001,
    ),
    "CLAHE": Row(
        CLAHE(),
        {"clip_limit": lambda limit: 5 * limit},
        theirs(A.CLAHE(), "clip_limit", on="uint8"),
        0.001,
    ),
    "illumination": Row(Illumination(), {"intensity": 1e-4, "slope": 1e-3}, linear, 0.001),
    "illumination, corner": Row(
        Illumination("corner"),
        {"intensity": 1e-4, "corner": lambda corner: (corner + 1) % 4},
        illumination("corner", corner="corner"),
        0.001,
    ),
    "illumination, gaussian": Row(
        Illumination("gaussian", intensity=(0.1, 0.2)),
        {"intensity": 1e-4, "center": 1e-3, "sigma": 1e-3},
        illumination("gaussian", center="center", sigma="sigma"),
        0.001,
    ),
    "plasma shadow": Row(
        PlasmaShadow(),
        {"intensity": 1e-4, "key": 1},
        clouds(A.PlasmaShadow(), intensity="intensity"),
        0.01,
    ),
    "plasma": Row(
        PlasmaBrightnessContrast((-0.2, 0.3), (-0.2, 0.5), roughness=0.6),
        {"brightness": 1e-4, "contrast": 1e-4, "key": 1},
        clouds(
            A.PlasmaBrightnessContrast(roughness=0.6),
            brightness_factor="brightness",
            contrast_factor="contrast",
        ),
        0.01,
    ),
    "stains": Row(
        HEStain(),
        {"stains": 0.001, "scale": 0.001, "shift": 0.001},
        theirs(A.HEStain(), stain_matrix="stains", scale_factors="scale", shift_values="shift"),
        0.01,
    ),
    "stains, background too": Row(
        HEStain("macenko", augment_background=True),
        {"scale": 0.001, "shift": 0.001},
        theirs(
            A.HEStain(augment_background=True),
            stain_matrix="stains",
            scale_factors="scale",
            shift_values="shift",
        ),
        0.01,
    ),
    "to 8 bits": Row(
        RandomApply([Brightness((0.9, 0.9)), ToDtype("uint8")], p=1),
        GATE,
        lambda x, _: (x * 0.9 * 255).round() / 255,
        0.001,
    ),
    "normalize": Row(
        Normalize(),
        GATE,
        lambda x, _: tv.normalize(x, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        0.001,
    ),
    "normalize per image": Row(
        NormalizePerImage(), GATE, theirs(A.Normalize(normalization="image"), on="uint8"), 0.003
    ),
    "normalize per image and channel": Row(
        NormalizePerImage(per_channel=True),
        GATE,
        theirs(A.Normalize(normalization="image_per_channel"), on="uint8"),
        0.003,
    ),
    "normalize to 0 and 1": Row(
        NormalizePerImage("min_max"),
        GATE,
        theirs(A.Normalize(normalization="min_max"), on="uint8"),
        0.003,
    ),
    "normalize channels to 0 and 1": Row(
        NormalizePerImage("min_max", per_channel=True),
        GATE,
        theirs(A.Normalize(normalization="min_max_per_channel"), on="uint8"),
        0.003,
    ),
}
