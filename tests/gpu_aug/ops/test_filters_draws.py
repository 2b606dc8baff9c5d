"""What blurs, noises and compressions draw, against Albumentations' and torchvision's own samplers."""

import re
from collections.abc import Callable
from typing import Any

import albumentations as A
import numpy as np
import pytest
import torch
from torchvision.transforms import v2

from gpu_aug import RecipeError
from gpu_aug.convert import convert, from_albumentations
from gpu_aug.ops.operation import Operation
from tests.support.laws import albumentations_draws, apart, draw, imported

SIZE = (20, 26)
NUM = 1500
CPU = torch.device("cpu")

Features = dict[str, np.ndarray]
Ours = Callable[[Operation, dict[str, Any]], Features]
Theirs = Callable[[list[dict[str, Any]]], Features]


def samples(transform: A.BasicTransform, num: int = NUM) -> list[dict[str, Any]]:
    """Return parameters that an Albumentations class draws for one float32 image."""
    return albumentations_draws(transform, SIZE, num, np.full((*SIZE, 3), 0.5, np.float32))


def of_kernels(kernels: list[np.ndarray]) -> Features:
    """Width, moments and concentration of kernels, whatever is around them."""
    rows = []
    for kernel in kernels:
        used = kernel > 1e-12
        y, x = np.mgrid[: len(kernel), : len(kernel)] - len(kernel) // 2
        means = [(kernel * axis).sum() for axis in (y, x)]
        rows.append(
            [
                used.any(axis=0).sum(),
                used.any(axis=1).sum(),
                kernel.max(),
                (kernel**2).sum(),
                *means,
                (kernel * y**2).sum(),
                (kernel * x**2).sum(),
                (kernel * x * y).sum(),
            ]
        )
    names = ("width", "height", "max", "power", "y", "x", "yy", "xx", "xy")
    return dict(zip(names, np.round(np.array(rows).T, 6), strict=True))


def from_kernels(operation: Any, drawn: dict[str, Any]) -> Features:
    kernels = operation.kernel(drawn)
    if kernels.shape[1] == 2 != kernels.shape[2]:
        kernels = kernels[:, 0, :, None] * kernels[:, 1, None, :]
    return of_kernels(list(kernels))


def named(**names: str) -> tuple[Ours, Theirs]:
    """Numbers of both: the class's name for each, and ours."""
    return (
        lambda _, drawn: {theirs: np.asarray(drawn[ours]) for theirs, ours in names.items()},
        lambda drawn: {theirs: np.array([p[theirs] for p in drawn]) for theirs in names},
    )


def their_kernels(name: str) -> Theirs:
    return lambda drawn: of_kernels(
        [
            np.outer(p[name], p[name]) if np.ndim(p[name]) == 1 else np.asarray(p[name])
            for p in drawn
        ]
    )


def of_field(fields: list[np.ndarray]) -> Features:
    """Level, spread and a single value of [H or 1, W or 1, C or 1] fields, and how channels differ."""
    whole = [np.broadcast_to(field, (*SIZE, 3)) for field in fields]
    return {
        "mean": np.array([field.mean() for field in whole]),
        "std": np.array([field.std() for field in whole]),
        "value": np.array([field[7, 9, 1] for field in whole]),
        "channels": np.array([np.abs(field[7, 9, 1] - field[7, 9, 0]) for field in whole]),
        "down": np.array([np.abs(field[7, 9, 1] - field[8, 9, 1]) for field in whole]),
    }


def our_field(operation: Any, drawn: dict[str, Any]) -> Features:
    field = operation.field(drawn, SIZE, CPU).permute(0, 2, 3, 1).double().numpy()
    return of_field([np.round(one, 7) for one in field])


def their_field(name: str) -> Theirs:
    return lambda drawn: of_field([np.round(np.float64(p[name]), 7) for p in drawn])


def of_aberration(operation: Operation, drawn: dict[str, Any]) -> Features:  # noqa: ARG001
    return {
        f"{name}_distortion_{channel}": drawn[channel][:, place]
        for channel in ("red", "blue")
        for place, name in enumerate(("primary", "secondary"))
    } | {"product": drawn["red"][:, 0] * drawn["blue"][:, 0]}


def their_aberration(drawn: list[dict[str, Any]]) -> Features:
    names = [name for name in drawn[0] if "distortion" in name]
    values = {name: np.array([p[name] for p in drawn]) for name in names}
    return values | {
        "product": values["primary_distortion_red"] * values["primary_distortion_blue"]
    }


KERNEL = (from_kernels, their_kernels("kernel"))
NOISE_MAP = (our_field, their_field("noise_map"))
CASES: list[tuple[A.BasicTransform, Ours, Theirs]] = [
    (A.Blur((3, 9)), *named(kernel="size")),
    (A.MedianBlur((3, 9)), *named(kernel="size")),
    (A.GaussianBlur(), *KERNEL),
    (A.GaussianBlur(blur_limit=(0, 7), sigma_limit=(0.2, 2.0)), *KERNEL),
    (A.GaussianBlur(blur_limit=(4, 9)), *KERNEL),
    (A.MotionBlur(), *KERNEL),
    (A.MotionBlur((5, 15), False, (20, 60), (-0.3, 0.9)), *KERNEL),
    (A.AdvancedBlur(), *KERNEL),
    (
        A.AdvancedBlur((3, 5), (0.3, 0.6), (0.8, 2.0), (10, 40), (0.6, 3.0), (0.5, 1.5)),
        *KERNEL,
    ),
    (A.Defocus(), *named(radius="radius", alias_blur="alias_blur")),
    (A.RingingOvershoot(), *KERNEL),
    (
        A.Sharpen(),
        lambda operation, drawn: {
            "corner": operation.kernel(drawn)[:, 0, 0],
            "middle": operation.kernel(drawn)[:, 1, 1],
        },
        lambda drawn: {
            "corner": np.array([p["sharpening_matrix"][0, 0] for p in drawn]),
            "middle": np.array([p["sharpening_matrix"][1, 1] for p in drawn]),
        },
    ),
    (
        A.Emboss(),
        lambda operation, drawn: {
            f"{i}{j}": operation.kernel(drawn)[:, i, j] for i in range(3) for j in range(3)
        },
        lambda drawn: {
            f"{i}{j}": np.array([p["emboss_matrix"][i, j] for p in drawn])
            for i in range(3)
            for j in range(3)
        },
    ),
    (A.UnsharpMask(sigma_limit=(0.1, 2.0)), *named(ksize="size", sigma="sigma", alpha="alpha")),
    (
        A.ZoomBlur(),
        lambda _, drawn: {
            "step": drawn["step"],
            "number": np.ceil((drawn["largest"] - 1) / drawn["step"]),
        },
        lambda drawn: {
            "step": np.array(
                [np.diff([*p["zoom_factors"], 9])[0] for p in drawn if len(p["zoom_factors"]) > 1]
            ),
            "number": np.array([len(p["zoom_factors"]) for p in drawn]),
        },
    ),
    (A.ChromaticAberration(), of_aberration, their_aberration),
    (A.ChromaticAberration(mode="red_blue"), of_aberration, their_aberration),
    (A.ChromaticAberration(mode="random"), of_aberration, their_aberration),
    (A.ImageCompression("jpeg", (20, 90)), *named(quality="quality")),
    (A.ImageCompression("webp", (20, 90)), *named(quality="quality")),
    (A.Downscale((0.2, 0.7)), *named(scale="scale")),
    (
        A.Superpixels((0.1, 0.7), (50, 90)),
        lambda _, drawn: {
            "num": drawn["num_segments"],
            "share": np.array(
                [r[:n].mean() for r, n in zip(drawn["replace"], drawn["num_segments"], strict=True)]
            ),
        },
        lambda drawn: {
            "num": np.array([p["n_segments"] for p in drawn]),
            "share": np.array([p["replace_samples"].mean() for p in drawn]),
        },
    ),
    (A.ISONoise(), *named(color_shift="color_shift", intensity="intensity")),
    (A.ShotNoise((0.05, 0.5)), *named(scale="scale")),
    (
        A.SaltAndPepper((0.05, 0.4), (0.2, 0.9)),
        lambda operation, drawn: {
            "salt": drawn["num_salt"],
            "pepper": drawn["num_changed"] - drawn["num_salt"],
            "place": operation.ranks(drawn, SIZE, CPU)[:, 0, 3, 4].numpy() < drawn["num_salt"],
        },
        lambda drawn: {
            "salt": np.array([p["salt_mask"].sum() for p in drawn]),
            "pepper": np.array([p["pepper_mask"].sum() for p in drawn]),
            "place": np.array([p["salt_mask"][3, 4] for p in drawn]),
        },
    ),
    (A.GaussNoise((0.1, 0.3), (-0.1, 0.2)), *NOISE_MAP),
    (A.GaussNoise(per_channel=False, noise_scale_factor=0.3), *NOISE_MAP),
    (A.AdditiveNoise(), *NOISE_MAP),
    (
        A.AdditiveNoise("uniform", noise_params={"ranges": [(-0.2, 0.0), (0.1, 0.3), (0.0, 0.5)]}),
        *NOISE_MAP,
    ),
    (A.AdditiveNoise("uniform", "per_pixel", approximation=0.5), *NOISE_MAP),
    (A.AdditiveNoise("gaussian", "shared"), *NOISE_MAP),
    (A.AdditiveNoise("laplace"), *NOISE_MAP),
    (A.AdditiveNoise("laplace", "per_pixel"), *NOISE_MAP),
    *(
        (
            A.MultiplicativeNoise((0.5, 1.4), channels, elements),
            our_field,
            their_field("multiplier"),
        )
        for channels in (False, True)
        for elements in (False, True)
    ),
]
IDS = [f"{place} {type(case[0]).__name__}" for place, case in enumerate(CASES)]


@pytest.mark.parametrize(("transform", "ours", "theirs"), CASES, ids=IDS)
def test_drawn_as_albumentations(transform, ours, theirs):
    """What is drawn has the distribution of Albumentations' class."""
    operation = imported(transform)
    mine = ours(operation, draw(operation, SIZE, NUM))
    expected = theirs(samples(transform))

    for name, values in expected.items():
        assert apart(mine[name], values) < 1, name


@pytest.mark.parametrize(
    ("transform", "other", "name"),
    [
        (A.MotionBlur((5, 9), True, (0, 90)), A.MotionBlur((5, 9), True, (0, 65)), "xx"),
        (A.AdvancedBlur(), A.AdvancedBlur(beta_limit=(0.5, 4.0)), "power"),
        (A.GaussianBlur(), A.GaussianBlur(sigma_limit=(0.5, 2.6)), "width"),
    ],
)
def test_another_law_is_noticed(transform, other, name):
    """The same comparison fails for slightly different arguments."""
    mine = from_kernels(imported(transform), draw(imported(transform), SIZE, NUM))
    theirs = their_kernels("kernel")(samples(other))

    assert apart(mine[name], theirs[name]) > 1


def test_shot_noise_has_albumentations_pixels_law():
    """Values that Albumentations' class makes of one gray, and ours, have one distribution."""
    from gpu_aug.engines.backends.step import prepare_torch

    transform = A.ShotNoise((0.1, 0.1), p=1)
    transform.set_random_seed(3)
    gray = np.full((30, 50, 3), 0.6, np.float32)
    theirs = transform(image=gray)["image"].ravel()

    operation = imported(transform)
    drawn = draw(operation, (30, 50), 1)
    ours = prepare_torch(operation, CPU)(torch.full((1, 3, 30, 50), 0.6), drawn).numpy().ravel()

    assert apart(np.round(ours, 5), np.round(theirs, 5)) < 1


def test_torchvision_draws():
    """Sigma of GaussianBlur and the quality of JPEG are drawn as torchvision does."""
    torch.manual_seed(0)
    for transform, name, value in (
        (v2.GaussianBlur((5, 9), (0.3, 1.7)), "sigma", lambda p: p["sigma"][0]),
        (v2.JPEG((30, 60)), "quality", lambda p: p["quality"]),
    ):
        theirs = np.array([value(transform.make_params([])) for _ in range(NUM)])
        assert apart(draw(imported(transform), SIZE, NUM)[name], theirs) < 1


def test_torchvisions_kernel_size_is_width_and_height():
    """A kernel of two sizes keeps its directions."""
    assert imported(v2.GaussianBlur((5, 9))).kernel_size == (9, 5)


@pytest.mark.parametrize(
    ("transform", "words"),
    [
        (A.AdditiveNoise("beta"), "beta distribution"),
        (A.AdditiveNoise("gaussian", "constant"), "first channel"),
        (A.ZoomBlur(step_factor=0.02), "without bound.*step_factor=\\(0.001, 0.02\\)"),
        (A.ShotNoise((0.0, 0.1)), "500 photons"),
        (A.Morphological(), "masks and boxes"),
        (A.RandomRain(), "rain"),
        (A.RandomFog(), "fog"),
        (A.RandomSnow(), "snow"),
        (A.RandomSunFlare(), "sun"),
        (A.RandomShadow(), "shadows"),
        (A.RandomGravel(), "gravel"),
        (A.Defocus(alias_blur=(0, 0)), "alias_blur=0"),
    ],
)
def test_what_has_no_equal_runs_as_it_is(transform, words):
    """The report says so, and why."""
    [line] = convert(A.Compose([transform])).lines
    assert line.outcome == "foreign"
    assert re.search(f"runs as it is on the CPU, since .*{words}", line.note)


def test_a_blur_without_width_is_refused():
    """The error names the class and the argument."""
    with pytest.raises(RecipeError, match=r"GaussianBlur: .*sigma_limit=0"):
        from_albumentations(A.Compose([A.GaussianBlur(sigma_limit=(0, 0))]))
