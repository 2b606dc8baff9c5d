"""Converters for blurs, sharpening, lens effects, noise and compression of Albumentations."""

from typing import Any

from gpu_aug.convert.registry import ALBUMENTATIONS, Refused, alike, converts, refuses
from gpu_aug.ops.blur.blurs import Blur, MedianBlur, MotionBlur, RandomGaussianBlur
from gpu_aug.ops.blur.edges import Emboss, RingingOvershoot, Sharpen, UnsharpMask
from gpu_aug.ops.blur.kernels import Sampling
from gpu_aug.ops.imported.filters import (
    AdvancedBlur,
    ChromaticAberration,
    Defocus,
    GlassBlur,
    ZoomBlur,
)
from gpu_aug.ops.imported.noise import ISONoise, SaltAndPepper, ShotNoise, Spatter, Superpixels
from gpu_aug.ops.noise.compression import JPEG, Downscale, WebP
from gpu_aug.ops.noise.noise import AdditiveNoise, GaussNoise, MultiplicativeNoise
from gpu_aug.ops.operation import Operation

Args = dict[str, Any]

# OpenCV's numbers of its interpolations.
_SAMPLINGS: dict[int, Sampling] = {
    0: "nearest",
    1: "bilinear",
    2: "bicubic",
    3: "area",
    4: "lanczos",
    5: "bilinear_exact",
    6: "nearest_exact",
}


ALBUMENTATIONS.update(
    {
        "Blur": alike(Blur, kernel_size="blur_limit"),
        "Emboss": alike(Emboss),
        "GaussNoise": alike(GaussNoise),
        "ISONoise": alike(ISONoise),
        "MedianBlur": alike(MedianBlur, kernel_size="blur_limit"),
        "MotionBlur": alike(
            MotionBlur, kernel_size="blur_limit", angle="angle_range", direction="direction_range"
        ),
        "MultiplicativeNoise": alike(MultiplicativeNoise),
        "SaltAndPepper": alike(SaltAndPepper),
        "UnsharpMask": alike(UnsharpMask, kernel_size="blur_limit", sigma="sigma_limit"),
    }
)


@converts(ALBUMENTATIONS, "GaussianBlur")
def _gaussian(args: Args) -> Operation | None:
    sigma = _positive(args, "sigma_limit", "A.GaussianBlur(sigma_limit=(0.5, 0.5))")
    return RandomGaussianBlur(_pair(args["blur_limit"]), sigma, p=args["p"])


@converts(ALBUMENTATIONS, "AdvancedBlur")
def _advanced(args: Args) -> Operation | None:
    nearest = "A.AdvancedBlur(sigma_x_limit=(0.2, 1.0), sigma_y_limit=(0.2, 1.0))"
    return AdvancedBlur(
        _pair(args["blur_limit"]),
        _positive(args, "sigma_x_limit", nearest),
        _positive(args, "sigma_y_limit", nearest),
        angle=_pair(args["rotate_limit"]),
        beta=_pair(args["beta_limit"]),
        noise=_positive(args, "noise_limit", "A.AdvancedBlur(noise_limit=(0.9, 1.1))"),
        p=args["p"],
    )


@converts(ALBUMENTATIONS, "Defocus")
def _defocus(args: Args) -> Operation | None:
    alias_blur = _pair(args["alias_blur"])
    if alias_blur[1] == 0:
        raise Refused(
            "alias_blur=0 lets OpenCV choose a blur by the size of its kernel",
            "A.Defocus(alias_blur=(0.8, 0.8))",
            runs=True,
        )
    return Defocus(_pair(args["radius"]), alias_blur, p=args["p"])


@converts(ALBUMENTATIONS, "ZoomBlur")
def _zoom(args: Args) -> Operation | None:
    step = _pair(args["step_factor"])
    if step[0] < 0.001:
        raise Refused(
            f"a step_factor from {step[0]} needs a number of zooms without bound",
            f"A.ZoomBlur(step_factor=(0.001, {max(step[1], 0.001)}))",
            runs=True,
        )
    return ZoomBlur(_pair(args["max_factor"]), step, p=args["p"])


@converts(ALBUMENTATIONS, "GlassBlur")
def _glass(args: Args) -> Operation | None:
    if args["sigma"] == 0:
        raise Refused("sigma=0 is an error in OpenCV", "A.GlassBlur(sigma=0.1)")
    return GlassBlur(
        args["sigma"], args["max_delta"], args["iterations"], mode=args["mode"], p=args["p"]
    )


@converts(ALBUMENTATIONS, "ChromaticAberration")
def _aberration(args: Args) -> Operation | None:
    return ChromaticAberration(
        _pair(args["primary_distortion_limit"]),
        _pair(args["secondary_distortion_limit"]),
        mode=args["mode"],
        sampling=_sampling(args["interpolation"]),
        p=args["p"],
    )


@converts(ALBUMENTATIONS, "Sharpen")
def _sharpen(args: Args) -> Operation | None:
    return Sharpen(
        _pair(args["alpha"]),
        _pair(args["lightness"]),
        method=args["method"],
        kernel_size=args["kernel_size"] + (args["kernel_size"] % 2 == 0),
        sigma=args["sigma"],
        p=args["p"],
    )


@converts(ALBUMENTATIONS, "RingingOvershoot")
def _ringing(args: Args) -> Operation | None:
    cutoff = _positive(args, "cutoff", "A.RingingOvershoot(cutoff=(0.1, 0.1))")
    return RingingOvershoot(_pair(args["blur_limit"]), cutoff, p=args["p"])


@converts(ALBUMENTATIONS, "AdditiveNoise")
def _additive_noise(args: Args) -> Operation | None:
    kind, mode = args["noise_type"], args["spatial_mode"]
    if kind == "beta":
        raise Refused(
            "the quantiles of the beta distribution have no formula that devices share",
            "A.AdditiveNoise(noise_type='uniform')",
            runs=True,
        )
    if kind == "gaussian" and mode == "constant":
        raise Refused(
            "OpenCV's generator is seeded with 16 bits there, and gives the first channel no noise",
            "A.AdditiveNoise('uniform', 'constant') or A.RGBShift()",
            runs=True,
        )
    values = dict(args["noise_params"] or _NOISE_PARAMS[kind])
    if kind == "uniform":
        ranges = [_pair(ends) for ends in values["ranges"]]
        if mode != "constant":
            ranges = ranges[:1]
        if len(ranges) == 2:
            raise Refused("it has two ranges for three channels", "one range, or three")
        values = {"ranges": tuple(ranges[:3])}
    else:
        scale = values["std_range" if kind == "gaussian" else "scale_range"]
        values = {"mean_range": _pair(values["mean_range"]), "scale_range": _pair(scale)}
    return AdditiveNoise(kind, mode, approximation=args["approximation"], p=args["p"], **values)


_NOISE_PARAMS: dict[str, dict[str, Any]] = {  # Albumentations' defaults
    "uniform": {"ranges": [(-0.1, 0.1)]},
    "gaussian": {"mean_range": (0.0, 0.0), "std_range": (0.05, 0.15)},
    "laplace": {"mean_range": (0.0, 0.0), "scale_range": (0.05, 0.15)},
}


@converts(ALBUMENTATIONS, "ShotNoise")
def _shot_noise(args: Args) -> Operation | None:
    scale = _pair(args["scale_range"])
    if scale[0] < 0.002:
        raise Refused(
            f"a scale_range from {scale[0]} counts more than 500 photons, "
            "whose number is drawn by adding up probabilities",
            f"A.ShotNoise(scale_range=(0.002, {max(scale[1], 0.002)}))",
            runs=True,
        )
    return ShotNoise(scale, p=args["p"])


@converts(ALBUMENTATIONS, "ImageCompression")
def _compression(args: Args) -> Operation | None:
    kind = {"jpeg": JPEG, "webp": WebP}[args["compression_type"]]
    # Albumentations hands RGB to OpenCV, which takes it for BGR.
    return kind(_pair(args["quality_range"]), channels="bgr", p=args["p"])


@converts(ALBUMENTATIONS, "Downscale")
def _downscale(args: Args) -> Operation | None:
    pair = args["interpolation_pair"]
    return Downscale(
        _positive(args, "scale_range", "A.Downscale(scale_range=(0.1, 0.1))"),
        down=_sampling(pair["downscale"]),
        up=_sampling(pair["upscale"]),
        p=args["p"],
    )


@converts(ALBUMENTATIONS, "Superpixels")
def _superpixels(args: Args) -> Operation | None:
    return Superpixels(
        _pair(args["p_replace"]),
        _pair(args["n_segments"]),
        max_size=args["max_size"],
        sampling=_sampling(args["interpolation"]),
        p=args["p"],
    )


@converts(ALBUMENTATIONS, "Spatter")
def _spatter(args: Args) -> Operation | None:
    red, green, blue = args["color"] or (
        [238, 238, 175] if args["mode"] == "rain" else [20, 42, 63]
    )
    return Spatter(
        _pair(args["mean"]),
        _pair(args["std"]),
        _pair(args["gauss_sigma"]),
        _pair(args["cutout_threshold"]),
        _pair(args["intensity"]),
        mode=args["mode"],
        color=(red / 255, green / 255, blue / 255),
        p=args["p"],
    )


refuses(
    ALBUMENTATIONS,
    "it changes masks and boxes by the same morphology, and here masks and boxes follow geometry alone",
    "Morphological",
    nearest="A.MedianBlur(), which changes images alone",
    runs=True,
)
# The reason for refusing drawings of weather.
_UNLIKE = "it paints {} with lines, discs and polygons in 8 bits, which no operation here does"
refuses(
    ALBUMENTATIONS,
    _UNLIKE.format("rain"),
    "RandomRain",
    nearest="A.Spatter(mode='rain') or A.MotionBlur()",
    runs=True,
)
refuses(
    ALBUMENTATIONS,
    _UNLIKE.format("fog"),
    "RandomFog",
    nearest="A.RandomBrightnessContrast() or A.GaussianBlur()",
    runs=True,
)
refuses(
    ALBUMENTATIONS,
    "its snow is made of the lightness in 8-bit HLS, which no operation here does",
    "RandomSnow",
    nearest="A.RandomBrightnessContrast() or A.SaltAndPepper()",
    runs=True,
)
refuses(
    ALBUMENTATIONS,
    _UNLIKE.format("the sun and its flares"),
    "RandomSunFlare",
    nearest="A.RandomBrightnessContrast()",
    runs=True,
)
refuses(
    ALBUMENTATIONS,
    _UNLIKE.format("shadows"),
    "RandomShadow",
    nearest="A.RandomBrightnessContrast() or A.CoarseDropout()",
    runs=True,
)
refuses(
    ALBUMENTATIONS,
    _UNLIKE.format("gravel"),
    "RandomGravel",
    nearest="A.SaltAndPepper() or A.Spatter(mode='mud')",
    runs=True,
)


def _pair(value: Any) -> Any:
    """Return a range as a tuple (smallest, largest), because Albumentations accepts the ends in any order."""
    if isinstance(value, list | tuple):
        low, high = value
        return (low, high) if low <= high else (high, low)
    return (value, value)


def _positive(args: Args, name: str, nearest: str) -> Any:
    ends = _pair(args[name])
    if ends[1] <= 0:
        raise Refused(f"{name}=0 divides by zero in Albumentations", nearest)
    return ends


def _sampling(flag: int) -> Sampling:
    if flag not in _SAMPLINGS:
        raise Refused(f"its interpolation {flag} is none of OpenCV's 0 to 6", "interpolation=1")
    return _SAMPLINGS[flag]
