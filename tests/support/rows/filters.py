"""Blurs, sharpening, lenses, noise and compression."""

import io
from typing import Any

import albumentations as A
import cv2
import numpy as np
import torch
from albumentations.augmentations.blur.functional import create_gaussian_kernel_1d
from albumentations.augmentations.pixel import functional as fpixel
from PIL import Image
from torchvision.transforms.v2 import functional as tv

from gpu_aug import (
    JPEG,
    AdditiveNoise,
    AdvancedBlur,
    Blur,
    ChromaticAberration,
    Defocus,
    Downscale,
    Emboss,
    GaussianBlur,
    GaussianNoise,
    GaussNoise,
    GlassBlur,
    ISONoise,
    MedianBlur,
    MotionBlur,
    MultiplicativeNoise,
    Noise,
    RandomGaussianBlur,
    RingingOvershoot,
    SaltAndPepper,
    Sharpen,
    ShotNoise,
    Spatter,
    Superpixels,
    UnsharpMask,
    WebP,
    ZoomBlur,
)
from tests.support.rows.row import SIZE, Oracle, Row, inject, interleaved

CPU = torch.device("cpu")


def other_key(key: np.ndarray) -> np.ndarray:
    """Another field."""
    return key + np.uint32(1)


def other_size(size: np.ndarray) -> np.ndarray:
    """Another odd size from the same range."""
    return np.where(size > 3, size - 2, size + 2)


def nudged(kernel: np.ndarray) -> np.ndarray:
    """The kernel with a thousandth of each number given to the next."""
    return kernel + 0.001 * (np.roll(kernel, 1, axis=-1) - kernel)


def through(call: Any, **names: str) -> Oracle:
    """Inject drawn parameters: the class's name for each, and ours."""
    return lambda x, p: inject(call, x, **{theirs: p[ours] for theirs, ours in names.items()})


def one(p: dict[str, Any]) -> dict[str, np.ndarray]:
    """A sample's parameters as a batch of one."""
    return {name: np.asarray(value)[None] for name, value in p.items()}


def with_field(call: Any, name: str, operation: Noise) -> Oracle:
    def oracle(x: torch.Tensor, p: dict[str, Any]) -> torch.Tensor:
        field = operation.field(one(p), SIZE, CPU)[0].permute(1, 2, 0)
        return inject(call, x, **{name: field.expand(*SIZE, 3).contiguous().numpy()})

    return oracle


def jpeg(x: torch.Tensor, p: dict[str, Any]) -> torch.Tensor:
    """Pillow's JPEG."""
    pixels = np.rint(x.permute(1, 2, 0).numpy() * 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=int(p["quality"]))
    return torch.from_numpy(np.array(Image.open(file))).permute(2, 0, 1) / 255


def gaussian_of_a(x: torch.Tensor, p: dict[str, Any]) -> torch.Tensor:
    kernel = create_gaussian_kernel_1d(float(p["sigma"]), int(p["size"]))
    return inject(A.GaussianBlur(), x, kernel=kernel)


def sharpen(x: torch.Tensor, p: dict[str, Any]) -> torch.Tensor:
    matrix = A.Sharpen._Sharpen__generate_sharpening_matrix(p["alpha"], p["lightness"])
    return inject(A.Sharpen(), x, alpha=p["alpha"], sharpening_matrix=matrix)


def emboss(x: torch.Tensor, p: dict[str, Any]) -> torch.Tensor:
    matrix = A.Emboss._Emboss__generate_emboss_matrix(p["alpha"], p["strength"])
    return inject(A.Emboss(), x, emboss_matrix=matrix)


def zoom(x: torch.Tensor, p: dict[str, Any]) -> torch.Tensor:
    return inject(A.ZoomBlur(), x, zoom_factors=np.arange(1.0, p["largest"], p["step"]))


def unsharp(x: torch.Tensor, p: dict[str, Any]) -> torch.Tensor:
    return inject(
        A.UnsharpMask(), x, ksize=int(p["size"]), sigma=float(p["sigma"]), alpha=float(p["alpha"])
    )


def median(x: torch.Tensor, p: dict[str, Any]) -> torch.Tensor:
    return inject(A.MedianBlur(), x, kernel=int(p["size"]))


def box(x: torch.Tensor, p: dict[str, Any]) -> torch.Tensor:
    return inject(A.Blur(), x, kernel=int(p["size"]))


class Fields:
    """Stands in for NumPy's generator: the numbers of our own fields, by SciPy's Poisson law."""

    def __init__(self, dice: np.ndarray, normal: np.ndarray | None = None) -> None:
        self._dice, self._normal = dice, normal

    def poisson(self, rate: np.ndarray, size: Any = None) -> np.ndarray:  # noqa: ARG002, D102
        from scipy.stats import poisson

        # ppf(u) is the smallest k with cdf(k) >= u; the fields count cdf(k) <= u.
        return poisson.ppf(self._dice.astype(np.float64) + 2.0**-26, rate)

    def normal(self, *_: Any, **__: Any) -> np.ndarray:  # noqa: D102
        return self._normal


def shot(x: torch.Tensor, p: dict[str, Any]) -> torch.Tensor:
    dice = ShotNoise().dice(one(p), SIZE, CPU)[0].permute(1, 2, 0).numpy()
    image = interleaved(x)
    result = fpixel.shot_noise(image, float(p["scale"]), Fields(dice))
    return torch.from_numpy(result).permute(2, 0, 1)


def iso(x: torch.Tensor, p: dict[str, Any]) -> torch.Tensor:
    operation = ISONoise()
    dice = operation.lightness_dice(one(p), SIZE, CPU)[0].numpy()
    hue = operation.hue_noise(one(p), SIZE, CPU)[0].numpy()
    image = interleaved(x)
    result = fpixel.iso_noise(image, p["color_shift"], p["intensity"], Fields(dice, hue))
    return torch.from_numpy(np.asarray(result, np.float32)).permute(2, 0, 1)


def salt(x: torch.Tensor, p: dict[str, Any]) -> torch.Tensor:
    ranks = SaltAndPepper().ranks(one(p), SIZE, CPU)[0, 0].numpy()
    salted = ranks < p["num_salt"]
    peppered = ~salted & (ranks < p["num_changed"])
    return inject(A.SaltAndPepper(), x, salt_mask=salted, pepper_mask=peppered)


def aberration(x: torch.Tensor, p: dict[str, Any]) -> torch.Tensor:
    names = ("primary_distortion", "secondary_distortion")
    params = {
        f"{name}_{channel}": p[channel][place]
        for channel in ("red", "blue")
        for place, name in enumerate(names)
    }
    return inject(A.ChromaticAberration(), x, **params)


def superpixels(x: torch.Tensor, p: dict[str, Any]) -> torch.Tensor:
    num = int(p["num_segments"])
    return inject(A.Superpixels(), x, replace_samples=p["replace"][:num], n_segments=num)


def with_noise(operation: Noise, name: str, call: Any) -> Row:
    return Row(operation, {"key": other_key}, with_field(call, name, operation), 0.001)


ADD, MULTIPLY = A.AdditiveNoise(), A.MultiplicativeNoise()

ROWS: dict[str, Row] = {
    "GaussianBlur(9)": Row(
        GaussianBlur(9),
        {"sigma": 0.0005},
        lambda x, p: tv.gaussian_blur(x, [9, 9], [float(p["sigma"])]),
        0.001,
    ),
    "GaussianBlur(3, p=0.5)": Row(
        GaussianBlur(3, (0.3, 0.8), p=0.5),
        {"sigma": 0.0005, "apply": 1},
        lambda x, p: tv.gaussian_blur(x, [3, 3], [float(p["sigma"])]),
        0.001,
    ),
    "GaussianBlur((5, 23))": Row(
        GaussianBlur((5, 23), (2.0, 9.0)),
        {"sigma": 0.005},
        lambda x, p: tv.gaussian_blur(x, [23, 5], [float(p["sigma"])]),
        0.001,
    ),
    "GaussianBlur(171), larger than the image": Row(
        GaussianBlur(171, (30.0, 60.0)),
        {"sigma": 0.1},
        lambda x, p: torch.from_numpy(
            cv2.GaussianBlur(interleaved(x), (171, 171), float(p["sigma"]))
        ).permute(2, 0, 1),
        0.001,
    ),
    "RandomGaussianBlur()": Row(RandomGaussianBlur(), {"sigma": 0.0005}, gaussian_of_a, 0.001),
    "RandomGaussianBlur((3, 7))": Row(
        RandomGaussianBlur((3, 7)), {"sigma": 0.0005, "size": other_size}, gaussian_of_a, 0.001
    ),
    "Blur()": Row(Blur(p=0.9), {"size": other_size}, box, 0.001),
    "MotionBlur()": Row(
        MotionBlur(p=0.9), {"kernel": nudged}, through(A.MotionBlur(), kernel="kernel"), 0.001
    ),
    "MotionBlur(21)": Row(
        MotionBlur(21, p=0.9, allow_shifted=False),
        {"kernel": nudged},
        through(A.MotionBlur(), kernel="kernel"),
        0.001,
    ),
    "AdvancedBlur()": Row(
        AdvancedBlur(p=0.9), {"kernel": nudged}, through(A.AdvancedBlur(), kernel="kernel"), 0.001
    ),
    "Sharpen()": Row(Sharpen(p=0.9), {"alpha": 0.0005, "lightness": 0.001}, sharpen, 0.003),
    "Sharpen(method='gaussian')": Row(
        Sharpen(method="gaussian", p=0.9),
        {"alpha": 0.0005},
        lambda x, p: inject(
            A.Sharpen(method="gaussian"), x, alpha=p["alpha"], sharpening_matrix=None
        ),
        0.001,
    ),
    "Emboss()": Row(Emboss(p=0.9), {"alpha": 0.0005, "strength": 0.0005}, emboss, 0.003),
    # Where a difference is exactly the threshold, rounding decides in Albumentations.
    "UnsharpMask()": Row(
        UnsharpMask(p=0.9), {"alpha": 0.001, "size": other_size}, unsharp, 0.003, oracle_stray=0.002
    ),
    "UnsharpMask(sigma=(0.5, 2))": Row(
        UnsharpMask((3, 9), (0.5, 2.0), p=0.9),
        {"alpha": 0.001, "sigma": 0.01},
        unsharp,
        0.003,
        oracle_stray=0.002,
    ),
    "RingingOvershoot()": Row(
        RingingOvershoot(p=0.9),
        {"cutoff": 0.0005},
        lambda x, p: inject(
            A.RingingOvershoot(), x, kernel=RingingOvershoot().kernel(one(p))[0].astype(np.float32)
        ),
        0.002,
    ),
    "Defocus()": Row(
        Defocus(p=0.9),
        {"radius": -1, "alias_blur": 0.002},
        through(A.Defocus(), radius="radius", alias_blur="alias_blur"),
        0.002,
    ),
    "ZoomBlur()": Row(ZoomBlur(p=0.9), {"step": 0.001, "largest": 0.05}, zoom, 0.01),
    "MedianBlur()": Row(MedianBlur(p=0.9), {"size": other_size}, median, 0.001),
    "GlassBlur()": Row(GlassBlur(p=0.9), {"key": other_key}),
    "ChromaticAberration()": Row(
        ChromaticAberration(p=0.9), {"red": 0.01, "blue": 0.01}, aberration, 0.001
    ),
    "JPEG((10, 95))": Row(JPEG((10, 95), p=0.9), {"quality": -5}, jpeg, 0.001),
    "JPEG((10, 95), channels='bgr')": Row(
        JPEG((10, 95), channels="bgr"),
        {"quality": -5},
        lambda x, p: inject(A.ImageCompression(), x, quality=int(p["quality"]), image_type=".jpg"),
        0.001,
    ),
    "WebP((10, 95), channels='bgr')": Row(
        WebP((10, 95), channels="bgr"),
        {"quality": -5},
        lambda x, p: inject(A.ImageCompression(), x, quality=int(p["quality"]), image_type=".webp"),
        0.001,
    ),
    "Downscale((0.2, 0.9))": Row(
        Downscale((0.2, 0.9), p=0.9), {"scale": 0.05}, through(A.Downscale(), scale="scale"), 0.001
    ),
    "Downscale, area and bicubic": Row(
        Downscale((0.2, 0.9), down="area", up="bicubic", p=0.9),
        {"scale": 0.05},
        through(
            A.Downscale(
                interpolation_pair={"downscale": cv2.INTER_AREA, "upscale": cv2.INTER_CUBIC}
            ),
            scale="scale",
        ),
        0.001,
    ),
    "Superpixels()": Row(
        Superpixels((0.2, 0.6), (40, 60), p=0.9), {"replace": np.logical_not}, superpixels, 0.001
    ),
    "Spatter(mode='rain')": Row(Spatter(p=0.9), {"key": other_key, "intensity": 0.1}),
    "Spatter(mode='mud')": Row(Spatter(mode="mud", p=0.9), {"key": other_key, "intensity": 0.1}),
    "GaussianNoise()": with_noise(GaussianNoise(0.05, 0.1), "noise_map", ADD),
    "GaussianNoise(clip=False)": Row(
        GaussianNoise(clip=False),
        {"key": other_key},
        lambda x, p: x + GaussianNoise().field(one(p), SIZE, CPU)[0],
        0.001,
    ),
    "GaussNoise()": with_noise(GaussNoise(mean_range=(-0.1, 0.1)), "noise_map", ADD),
    "GaussNoise(per_channel=False, noise_scale_factor=0.3)": with_noise(
        GaussNoise(per_channel=False, noise_scale_factor=0.3), "noise_map", ADD
    ),
    "AdditiveNoise()": with_noise(AdditiveNoise(), "noise_map", ADD),
    "AdditiveNoise('gaussian', 'shared')": with_noise(
        AdditiveNoise("gaussian", "shared"), "noise_map", ADD
    ),
    "AdditiveNoise('laplace', 'per_pixel')": with_noise(
        AdditiveNoise("laplace", "per_pixel"), "noise_map", ADD
    ),
    "MultiplicativeNoise()": with_noise(MultiplicativeNoise(), "multiplier", MULTIPLY),
    "MultiplicativeNoise(per_channel, elementwise)": with_noise(
        MultiplicativeNoise((0.5, 1.5), True, True), "multiplier", MULTIPLY
    ),
    "SaltAndPepper()": Row(
        SaltAndPepper(p=0.9), {"key": other_key, "num_changed": 1, "num_salt": 1}, salt, 0.001
    ),
    # OpenCV's vector code extrapolates negative hues.
    "ISONoise()": Row(ISONoise(p=0.9), {"key": other_key, "color_shift": 0.5}, iso, 0.01, 1e-3),
    "ShotNoise()": Row(ShotNoise(p=0.9), {"key": other_key, "scale": 0.001}, shot, 0.01, 1e-5),
}
