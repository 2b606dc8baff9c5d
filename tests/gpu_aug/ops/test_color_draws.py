"""Colour transforms of Albumentations and torchvision, imported: the same draws and the same pixels."""

from collections.abc import Callable
from typing import Any

import albumentations as A
import numpy as np
import pytest
import torch
from albumentations.augmentations.pixel.functional import generate_plasma_pattern
from torchvision.transforms import v2

from gpu_aug import (
    ColorJitter,
    Draws,
    Identity,
    NormalizePerImage,
    Recipe,
    RecipeError,
)
from gpu_aug.convert import from_albumentations, from_torchvision
from gpu_aug.ops.imported.shading import plasma
from gpu_aug.ops.operation import Operation
from tests.support.engines import render
from tests.support.laws import albumentations_draws, apart, imported
from tests.support.laws import draw as draw_some
from tests.support.rows.colour import Replay

NUM_DRAWS = 2000
SIZE = (61, 64)  # OpenCV's 8-bit HSV rounds otherwise behind the last whole 32 columns

Row = dict[str, Any]


def take(*names: str, **renamed: str) -> Callable[[Row], Row]:
    """The drawn values with these names, and under other names."""
    return lambda p: {name: p[name] for name in names} | {to: p[of] for to, of in renamed.items()}


def by_matrix(make: Callable[[np.ndarray], Row]) -> Callable[[Row], Row]:
    return lambda p: make(p["matrix"])


def angle(p: Row) -> Row:
    return {
        "intensity": p["intensity"],
        "angle": np.degrees(np.arctan2(p["slope"][1], p["slope"][0])) % 360,
    }


# A transform, its parameters from ours, and whether its pixels are those on uint8.
CASES: dict[str, tuple[A.BasicTransform, Callable[[Row], Row], bool]] = {
    "jitter": (
        A.ColorJitter(0.3, (0.5, 1.1), (0.0, 2.0), (-0.2, 0.1), p=1),
        take("brightness", "contrast", "saturation", "hue", "order"),
        False,
    ),
    "brightness and contrast": (
        A.RandomBrightnessContrast((-0.1, 0.4), (-0.5, 0.2), p=1),
        by_matrix(lambda m: {"alpha": m[0, 0], "beta": m[0, 3]}),
        False,
    ),
    "safe brightness and contrast": (
        A.RandomBrightnessContrast((-0.1, 0.4), (-1.5, 0.2), ensure_safe_range=True, p=1),
        by_matrix(lambda m: {"alpha": m[0, 0], "beta": m[0, 3]}),
        False,
    ),
    "hue, saturation, value": (
        A.HueSaturationValue((-40, 10), 50, (0, 60), p=1),
        take("hue_shift", "sat_shift", "val_shift"),
        True,
    ),
    "gamma": (A.RandomGamma((40, 220), p=1), take("gamma"), False),
    "solarize": (A.Solarize((0.2, 0.7), p=1), take("threshold"), False),
    "posterize": (A.Posterize((2, 6), p=1), take(num_bits="bits"), True),
    "posterize per channel": (
        A.Posterize([(1, 2), (3, 5), (2, 7)], p=1),
        take(num_bits="bits"),
        True,
    ),
    "CLAHE": (A.CLAHE((1, 9), (4, 3), p=1), take("clip_limit"), True),
    "tone curve": (
        A.RandomToneCurve(0.3, p=1),
        lambda p: {"low_y": p["low"][0], "high_y": p["high"][0]},
        True,
    ),
    "tone curve per channel": (
        A.RandomToneCurve(0.3, per_channel=True, p=1),
        take(low_y="low", high_y="high"),
        True,
    ),
    "light": (A.PlanckianJitter(temperature_limit=(4000, 12000), p=1), take("temperature"), False),
    "light, gaussian": (
        A.PlanckianJitter("cied", sampling_method="gaussian", p=1),
        take("temperature"),
        False,
    ),
    "RGB shift": (
        A.RGBShift((-40, 20), 0.1, (0, 50), p=1),
        by_matrix(lambda m: {"noise_map": m[:, 3]}),
        False,
    ),
    "channel shuffle": (
        A.ChannelShuffle(p=1),
        by_matrix(lambda m: {"channels_shuffled": m[:, :3].argmax(1)}),
        False,
    ),
    "illumination": (A.Illumination(intensity_range=(0.05, 0.2), p=1), angle, False),
    "darker": (
        A.Illumination(angle_range=(30, 80), effect_type="darken", p=1),
        angle,
        False,
    ),
    "illumination from a corner": (
        A.Illumination("corner", effect_type="brighten", p=1),
        take("intensity", "corner"),
        False,
    ),
    "illumination around a point": (
        A.Illumination("gaussian", center_range=(0.3, 0.6), sigma_range=(0.3, 0.5), p=1),
        take("intensity", "center", "sigma"),
        False,
    ),
    "stains": (
        A.HEStain(intensity_scale_range=(0.5, 1.5), intensity_shift_range=(-0.1, 0.3), p=1),
        take(stain_matrix="stains", scale_factors="scale", shift_values="shift"),
        False,
    ),
    "one stain": (
        A.HEStain("preset", augment_background=True, p=1),
        take(stain_matrix="stains", scale_factors="scale", shift_values="shift"),
        False,
    ),
}
NOTHING_DRAWN: dict[str, tuple[A.BasicTransform, bool]] = {
    "invert": (A.InvertImg(p=1), False),
    "sepia": (A.ToSepia(p=1), False),
    "equalize": (A.Equalize(p=1), True),
    "equalize as pil": (A.Equalize(mode="pil", p=1), True),
    "equalize luma": (A.Equalize(by_channels=False, p=1), True),
    "autocontrast": (A.AutoContrast(p=1), True),
    "autocontrast with a cutoff": (A.AutoContrast(cutoff=3, ignore=200, method="pil", p=1), True),
    "gray": (A.ToGray(p=1), False),
    "gray, average": (A.ToGray(method="average", p=1), False),
    "gray, max": (A.ToGray(method="max", p=1), False),
    "gray, desaturation": (A.ToGray(method="desaturation", p=1), False),
    "gray, from Lab": (A.ToGray(method="from_lab", p=1), True),
    "normalize": (A.Normalize((0.1, 0.2, 0.3), (0.5, 0.6, 0.7)), True),
    "normalize, one number": (A.Normalize((0.4,), (0.3,)), True),
    "normalize in 0..255": (A.Normalize((120, 110, 100), (60, 58, 56), max_pixel_value=1.0), True),
    "normalize the image": (A.Normalize(normalization="image"), True),
    "normalize channels": (A.Normalize(normalization="image_per_channel"), True),
    "normalize to 1": (A.Normalize(normalization="min_max"), True),
    "normalize channels to 1": (A.Normalize(normalization="min_max_per_channel"), True),
    "shift by nothing": (A.HueSaturationValue(0, 0, 0, p=1), True),
}


@pytest.fixture(scope="module")
def image() -> np.ndarray:
    """uint8 [*SIZE, 3]: smooth colours with a little noise."""
    y, x = np.mgrid[: SIZE[0], : SIZE[1]]
    waves = [100 + 80 * np.sin(x / 9 + c) + 40 * np.cos(y / (5 + 3 * c)) for c in range(3)]
    noise = np.random.default_rng(0).normal(0, 6, (*SIZE, 3))
    return np.clip(np.stack(waves, -1) + noise, 3, 250).astype(np.uint8)


def draw(operation: Operation, num: int) -> dict[str, np.ndarray]:
    return draw_some(operation, SIZE, num)


def rows_of(drawn: dict[str, np.ndarray], num: int) -> list[Row]:
    return [{name: values[row] for name, values in drawn.items()} for row in range(num)]


def theirs(transform: A.BasicTransform, image: np.ndarray, num: int) -> list[Row]:
    """Return parameters that Albumentations draws."""
    drawn = albumentations_draws(transform, SIZE, num, image)
    return [{name: params[name] for name in params if name != "shape"} for params in drawn]


def columns(samples: list[Row]) -> np.ndarray:
    """float64 [n, all numbers of a sample], by name."""
    names = sorted(samples[0])
    return np.array(
        [np.concatenate([np.ravel(sample[name]) for name in names]) for sample in samples], float
    )


@pytest.mark.parametrize("label", CASES)
def test_parameters_are_drawn_as_albumentations_draws_them(image, label):
    """Every parameter has the distribution of Albumentations' own sampler."""
    transform, translate, _ = CASES[label]
    on_float = image.astype(np.float32) / 255

    mine = columns(
        [translate(row) for row in rows_of(draw(imported(transform), NUM_DRAWS), NUM_DRAWS)]
    )
    expected = columns(theirs(transform, on_float, NUM_DRAWS))

    assert mine.shape == expected.shape
    for column in range(mine.shape[1]):
        # Rounded: an angle is read back from its sine and cosine, a shift from a product.
        assert apart(mine[:, column].round(9), expected[:, column].round(9)) < 1
    assert apart(mine[:, 0] + 0.3 * np.ptp(mine[:, 0]), expected[:, 0]) > 1


def inject(transform: A.BasicTransform, image: np.ndarray, **params: Any) -> np.ndarray:
    shown = {"shape": image.shape, **params}
    result = transform.apply_with_params(shown, image=image)["image"]
    return result.astype(np.float32) / 255 if result.dtype == np.uint8 else result


def run(operation: Operation, image: np.ndarray, draws: Draws) -> np.ndarray:
    images = [torch.from_numpy(image)] * len(draws.sizes)
    results = render("kornia", Recipe([Identity(), operation]), images, draws)
    return torch.stack(results).permute(0, 2, 3, 1).numpy()


@pytest.mark.parametrize("label", CASES)
def test_pixels_are_those_of_albumentations(image, label):
    """Its own class with our parameters makes the same image."""
    transform, translate, whole = CASES[label]
    operation = imported(transform)
    recipe = Recipe([Identity(), operation])
    draws = recipe.draw(1, 0, np.arange(6), np.full((6, 2), SIZE))
    source = image if whole else image.astype(np.float32) / 255

    results = run(operation, image, draws)

    for result, row in zip(results, rows_of(draws.params[-1], 6), strict=True):
        params = {
            name: value.item() if np.ndim(value) == 0 else value
            for name, value in translate(row).items()
        }
        expected = inject(transform, source, **params)
        # Measured: 0.001 at most but for 1 in 10,000 values in HSV, which is 8-bit.
        assert np.mean(np.abs(result - expected) * 255 > 0.01) < 0.001


@pytest.mark.parametrize("label", NOTHING_DRAWN)
def test_pixels_of_transforms_without_parameters_are_those_of_albumentations(image, label):
    """Its own class makes the same image."""
    transform, whole = NOTHING_DRAWN[label]
    operation = imported(transform)
    recipe = Recipe([Identity(), operation])
    draws = recipe.draw(1, 0, np.arange(1), np.full((1, 2), SIZE))
    source = image if whole else image.astype(np.float32) / 255

    [result] = run(operation, image, draws)

    shifts = dict.fromkeys(("hue_shift", "sat_shift", "val_shift"), 0)
    expected = inject(transform, source, mask=None, **shifts)
    assert np.abs(result - expected).max() * 255 <= 0.01
    assert np.abs(result - image / 255).max() > 0.01 or label == "shift by nothing"


def test_brightness_of_the_mean_is_a_share_of_the_images_mean(image):
    """With brightness_by_max=False what is added is in proportion to the mean."""
    transform = A.RandomBrightnessContrast(0.4, 0.3, brightness_by_max=False, p=1)
    on_float = image.astype(np.float32) / 255
    mean = float(on_float.mean())
    drawn = draw(imported(transform), NUM_DRAWS)

    mine = np.stack([drawn["alpha"], drawn["beta"] * mean], axis=1)
    expected = columns(theirs(transform, on_float, NUM_DRAWS))

    for column in range(2):
        assert apart(mine[:, column], expected[:, column]) < 1


def test_channel_dropout_drops_as_albumentations(image):
    """Number and choice of the channels have its distribution."""
    transform = A.ChannelDropout((1, 2), fill=51, p=1)
    matrices = draw(imported(transform), NUM_DRAWS)["matrix"]
    dropped = np.array(
        [
            np.isin(np.arange(3), sample["channels_to_drop"])
            for sample in theirs(transform, image, NUM_DRAWS)
        ]
    )

    mine = matrices[:, :, :3].sum(axis=2) == 0

    powers = np.array([1, 2, 4])
    assert apart(mine @ powers, dropped @ powers) < 1
    assert set(matrices[mine][:, 3].round(9)) == {0.2}


def test_fancy_pca_draws_normal_numbers_as_albumentations(image):
    """Its three numbers have the standard deviation alpha."""
    transform = A.FancyPCA(0.3, p=1)

    mine = draw(imported(transform), NUM_DRAWS)["stretch"]
    expected = columns(theirs(transform, image, NUM_DRAWS))

    for column in range(3):
        assert apart(mine[:, column], expected[:, column]) < 1


def test_plasma_draws_as_albumentations(image):
    """Strengths have its distribution, and the clouds at one place that of its clouds."""
    number = 400
    transform = A.PlasmaBrightnessContrast((-0.2, 0.3), (0.1, 0.5), roughness=0.5, p=1)
    operation = imported(transform)
    drawn = draw(operation, number)
    samples = theirs(transform, image, number)

    mine = plasma(drawn["key"], SIZE, operation.roughness, torch.device("cpu"))[:, 0].numpy()
    expected = np.stack([sample["plasma_pattern"] for sample in samples])

    assert apart(mine[:, 20, 31], expected[:, 20, 31]) < 1
    assert apart(mine.std(axis=(1, 2)), expected.std(axis=(1, 2))) < 1
    for name in ("brightness", "contrast"):
        values = np.array([sample[f"{name}_factor"] for sample in samples])
        assert apart(drawn[name], values) < 1


@pytest.mark.parametrize("roughness", [0.5, 3.0])
@pytest.mark.parametrize("size", [(2, 3), (3, 3), (4, 5), (33, 20), (34, 66), (61, 64), (130, 37)])
def test_plasma_is_the_pattern_of_albumentations(size, roughness):
    """The clouds are those that Albumentations makes of our numbers, for images of all shapes."""
    keys = np.array([[7, 1], [8, 2]], np.uint32)
    clouds = plasma(keys, size, roughness, torch.device("cpu"))[:, 0].numpy()
    theirs, other = (generate_plasma_pattern(size, roughness, Replay(key)) for key in keys)

    np.testing.assert_allclose(clouds[0], theirs, atol=2e-6)
    np.testing.assert_allclose(clouds[1], other, atol=2e-6)
    assert np.abs(clouds[0] - other).max() > 1e-2


def test_photometric_distort_draws_as_torchvision():
    """Each factor is drawn as often as in torchvision, and contrast before hue in half of the images."""
    transform = v2.RandomPhotometricDistort(p=0.7)
    recipe = Recipe([Identity(), imported(transform)])
    draws = recipe.draw(1, 0, np.arange(NUM_DRAWS), np.full((NUM_DRAWS, 2), SIZE))
    torch.manual_seed(0)
    samples = [transform.make_params([torch.zeros(3, 4, 4)]) for _ in range(NUM_DRAWS)]
    first, second = draws.params[2], draws.params[5]

    assert not (first["apply"] & second["apply"]).any()
    before = [s["contrast_factor"] is not None and s["contrast_before"] for s in samples]
    assert apart(first["apply"].astype(float), np.array(before, float)) < 1
    for place, name in ((1, "brightness"), (3, "saturation"), (4, "hue")):
        leaf = draws.params[place]
        mine = np.where(leaf["apply"], leaf["factor"], 9.0)
        values = [s[f"{name}_factor"] for s in samples]
        expected = np.array([9.0 if value is None else value for value in values])
        assert apart(mine, expected) < 1
    shuffled = draws.params[6]["apply"].astype(float)
    expected = np.array([s["channel_permutation"] is not None for s in samples], float)
    assert apart(shuffled, expected) < 1


TORCHVISION = [
    v2.ColorJitter(0.4, (0.5, 1.2), None, 0.1),
    v2.Grayscale(3),
    v2.RandomGrayscale(1.0),
    v2.RandomAdjustSharpness(2.5, 1.0),
    v2.RandomAutocontrast(1.0),
    v2.RandomEqualize(1.0),
    v2.RandomInvert(1.0),
    v2.RandomPosterize(3, 1.0),
    v2.RandomSolarize(192.0, 1.0),
    v2.RandomChannelPermutation(),
]


@pytest.mark.parametrize("transform", TORCHVISION, ids=lambda t: type(t).__name__)
def test_pixels_are_those_of_torchvision_on_uint8(image, transform):
    """Where nothing but an order or factors are drawn, some draw of torchvision's gives our pixels."""
    [operation] = from_torchvision(v2.Compose([transform, v2.ToImage()])).operations
    recipe = Recipe([Identity(), operation])
    draws = recipe.draw(1, 0, np.arange(1), np.full((1, 2), SIZE))
    [result] = run(operation, image, draws)
    whole = torch.from_numpy(image).permute(2, 0, 1)
    drawn = rows_of(draws.params[-1], 1)[0]

    params: Row = {}
    if isinstance(operation, ColorJitter):
        params = {"fn_idx": drawn["order"].tolist()}
        for name in ("brightness", "contrast", "saturation", "hue"):
            unused = getattr(transform, name) is None
            params[f"{name}_factor"] = None if unused else float(drawn[name])
        whole = whole.float() / 255  # on uint8 it rounds after every step
    elif isinstance(transform, v2.RandomChannelPermutation):
        params = {"permutation": drawn["matrix"][:, :3].argmax(1).tolist()}
    elif isinstance(transform, v2.RandomGrayscale):
        params = {"num_input_channels": 3}
    expected = transform.transform(whole, params)

    expected = expected.float() / (255 if expected.dtype == torch.uint8 else 1)
    gap = np.abs(result - expected.permute(1, 2, 0).numpy()).max() * 255
    assert gap <= 3.5 if isinstance(transform, v2.RandomAdjustSharpness) else gap <= 1.05


def test_a_threshold_of_torchvision_is_in_the_units_of_its_images():
    """192 before the conversion to floats and 192 / 255 after it are one threshold."""
    convert = v2.ToDtype(torch.float32, scale=True)

    before = from_torchvision([v2.RandomSolarize(192, 1.0), convert])
    after = from_torchvision([v2.ToImage(), convert, v2.RandomSolarize(192 / 255, 1.0)])

    assert before.operations == after.operations


@pytest.mark.parametrize(
    ("transform", "words"),
    [
        (A.ToGray(method="pca"), "inverted"),
        (A.Equalize(mask=np.zeros((4, 4), np.uint8)), "mask"),
        (A.ToFloat(max_value=100), "divides"),
        (A.FromFloat(dtype="uint16"), "uint16"),
        (A.Normalize(p=0.5), "some images"),
        (A.OverlayElements(), "beside each image"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_cannot_mean_the_same_is_refused_by_name(transform, words):
    """The error names the transform and says why."""
    with pytest.raises(RecipeError, match=f"(?s){type(transform).__name__}.*{words}"):
        from_albumentations(A.Compose([transform]))


def test_values_after_normalize_per_image_are_not_taken_for_colours():
    """An operation that needs [0, 1] is refused after it, as after Normalize."""
    with pytest.raises(RecipeError, match="ColorJitter must come before Normalize"):
        Recipe([Identity(), NormalizePerImage(), ColorJitter(0.4)])
