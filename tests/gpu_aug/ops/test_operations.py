"""What operations draw, against torchvision's rules and against its own random classes."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as tv

from gpu_aug import (
    CenterCrop,
    ColorJitter,
    GaussianBlur,
    Grayscale,
    HorizontalFlip,
    Normalize,
    RandomAffine,
    RandomErasing,
    RandomResizedCrop,
    RecipeError,
    Resize,
    VerticalFlip,
)
from gpu_aug.draws import uniforms
from tests.support.laws import draw as draw_some
from tests.support.laws import ks_distance

NUM_DRAWS = 3000
# Two samples of NUM_DRAWS from one distribution lie further apart in one case of a million.
KS_LIMIT = math.sqrt(-0.5 * math.log(1e-6 / 2)) * math.sqrt(2 / NUM_DRAWS)


draw = partial(draw_some, num=NUM_DRAWS)


def rectangles(transform: v2.Transform, size: tuple[int, int], num: int = NUM_DRAWS) -> np.ndarray:
    """Rectangles (top, left, height, width) that a torchvision class draws on one size."""
    image = torch.zeros(3, *size)
    torch.manual_seed(0)
    drawn = (transform.make_params([image]) for _ in range(num))
    keys = ("top", "left", "height", "width") if "top" in transform.make_params([image]) else "ijhw"
    return np.array([[params[key] for key in keys] for params in drawn])


@pytest.mark.parametrize("size", [(375, 500), (500, 120), (64, 64)])
def test_random_resized_crop_draws_as_torchvision(size):
    """Area, shape and place of the crops have the distribution of torchvision's class."""
    ours = draw(RandomResizedCrop(8), size)
    theirs = rectangles(v2.RandomResizedCrop(8), size)
    other = draw(RandomResizedCrop(8, scale=(0.15, 1.0)), size)

    def features(start: np.ndarray, shape: np.ndarray) -> dict[str, np.ndarray]:
        room = np.maximum(np.array(size) - shape, 1)
        return {
            "area": shape.prod(axis=1),
            "height": shape[:, 0],
            "width": shape[:, 1],
            "ratio": shape[:, 1] / shape[:, 0],
            "top": start[:, 0] / room[:, 0],
            "left": start[:, 1] / room[:, 1],
        }

    expected = features(theirs[:, :2], theirs[:, 2:])
    for name, values in features(ours["start"], ours["shape"]).items():
        assert ks_distance(values, expected[name]) < KS_LIMIT, name
    changed = features(other["start"], other["shape"])
    assert ks_distance(changed["area"], expected["area"]) > KS_LIMIT


@pytest.mark.parametrize("size", [(10, 1000), (1000, 10), (1, 1), (3, 3), (100, 134), (134, 100)])
def test_random_resized_crop_falls_back_as_torchvision(size):
    """Where no try fits, the crop is torchvision's centred one."""
    arguments = {"scale": (1.9, 2.0), "ratio": (3 / 4, 4 / 3)}  # never fits
    [expected] = rectangles(v2.RandomResizedCrop(8, **arguments), size, num=1)

    drawn = draw(RandomResizedCrop(8, **arguments), size, num=1)

    assert expected.tolist() == [*drawn["start"][0], *drawn["shape"][0]]


def test_every_place_of_a_crop_is_possible():
    """The first and the last top-left corner are both drawn, and none beyond."""
    drawn = draw(RandomResizedCrop(8, scale=(0.25, 0.25), ratio=(1, 1)), (8, 8))

    assert {0, 1, 2, 3, 4} == set(drawn["start"][:, 0]) == set(drawn["start"][:, 1])


@pytest.mark.parametrize("size", [1, 7, 224, 256])
def test_resize_rounds_as_torchvision(size):
    """The longer side has torchvision's length for every shape of image."""
    sizes = np.random.default_rng(size).integers(1, 400, (100, 2))
    ours = Resize(size).possible_sizes(sizes)

    for source, result in zip(sizes.tolist(), ours.tolist(), strict=True):
        image = torch.zeros(1, *source, dtype=torch.uint8)
        if max(result) < 1000:
            assert list(tv.resize(image, [size], antialias=False).shape[1:]) == result


@pytest.mark.parametrize("size", [(5, 5), (4, 7), (8, 8), (9, 3), (12, 11)])
@pytest.mark.parametrize("crop", [(5, 5), (6, 9), (8, 2), (1, 1)])
def test_center_crop_places_as_torchvision(size, crop):
    """The crop starts where torchvision's does, inside and outside the image."""
    image = torch.arange(1, size[0] * size[1] + 1).reshape(1, *size)
    expected = tv.center_crop(image, list(crop))[0].numpy()
    start = draw(CenterCrop(crop), size, num=1)["start"][0]

    rows, columns = np.arange(crop[0]) + start[0], np.arange(crop[1]) + start[1]
    inside = ((rows >= 0) & (rows < size[0]))[:, None] & ((columns >= 0) & (columns < size[1]))
    values = (rows * size[1])[:, None] + columns + 1

    np.testing.assert_array_equal(expected, np.where(inside, values, 0))


@pytest.mark.parametrize(
    "make",
    [
        HorizontalFlip,
        VerticalFlip,
        Grayscale,
        RandomErasing,
        lambda p: ColorJitter(0.4, p=p),
        lambda p: GaussianBlur(3, p=p),
        lambda p: RandomAffine(10, p=p),
    ],
)
def test_p_is_the_share_of_changed_images(make):
    """P = 0 is never, p = 1 is always, and p = 0.3 is three in ten."""
    assert not draw(make(0.0), (40, 40))["apply"].any()
    assert draw(make(1.0), (40, 40))["apply"].all()
    assert abs(draw(make(0.3), (40, 40))["apply"].mean() - 0.3) < 0.04  # 4.8 sigma


def test_color_jitter_draws_its_ranges():
    """The factors fill the ranges that torchvision reads from the same arguments."""
    drawn = draw(ColorJitter(0.4, (0.5, 0.7), 2.0, 0.1), (8, 8))
    theirs = v2.ColorJitter(0.4, (0.5, 0.7), 2.0, 0.1)

    for name in ("brightness", "contrast", "saturation", "hue"):
        low, high = getattr(theirs, name)
        margin = (high - low) / 100
        assert low <= drawn[name].min() < low + margin
        assert high - margin < drawn[name].max() < high


def test_color_jitter_draws_every_order_alike():
    """All 24 orders are drawn, each about as often as the others (chi-square)."""
    orders, counts = np.unique(draw(ColorJitter(0.4), (8, 8))["order"], axis=0, return_counts=True)
    expected = NUM_DRAWS / 24

    assert list(orders.shape) == [24, 4]
    assert (np.sort(orders, axis=1) == np.arange(4)).all()
    assert ((counts - expected) ** 2 / expected).sum() < 49.7  # the 99.9 % point, 23 degrees


def test_random_affine_matrices_are_torchvisions():
    """The matrices warp as torchvision's affine does with the angles that were drawn."""
    operation = RandomAffine((-40, 70), (0.1, 0.3), (0.5, 1.5), (-20, 10, -5, 15))
    height, width = 31, 44
    u = uniforms(3, 0, np.arange(6), [operation.num_uniforms])[0]
    matrices = operation.draw(u, np.full((6, 2), (height, width)))["matrix"]
    rows, columns = np.mgrid[:height, :width].astype(np.float64)
    # A picture that is linear in x and y shows where each pixel came from.
    picture = torch.from_numpy(np.stack([columns, rows, np.ones_like(rows)]))

    for numbers, matrix in zip(u, matrices, strict=True):
        warped = tv.affine(
            picture,
            angle=-40 + 110 * numbers[1],
            translate=[
                round((2 * numbers[2] - 1) * 0.1 * width),
                round((2 * numbers[3] - 1) * 0.3 * height),
            ],
            scale=0.5 + numbers[4],
            shear=[-20 + 30 * numbers[5], -5 + 20 * numbers[6]],
            interpolation=tv.InterpolationMode.BILINEAR,
        ).numpy()
        inside = warped[2] > 1 - 1e-9
        result = np.stack([columns, rows, np.ones_like(rows)])
        came_from = np.einsum("ij,jhw->ihw", np.linalg.inv(matrix), result)

        assert inside.sum() > 100
        np.testing.assert_allclose(warped[:2, inside], came_from[:2, inside], atol=1e-4)
        shifted = np.einsum("ij,jhw->ihw", np.linalg.inv(matrix + 0.01 * np.eye(3)), result)
        assert np.abs(warped[:2, inside] - shifted[:2, inside]).max() > 1e-2


def test_random_affine_ranges():
    """Angles, scales and shifts fill their ranges; a shift is whole pixels."""
    matrix = draw(RandomAffine(30, (0.1, 0.2), (0.5, 2.0)), (41, 81))["matrix"]
    center = np.array([40.0, 20.0, 1.0])
    shift = (matrix @ center - center)[:, :2]
    scale = np.sqrt(np.linalg.det(matrix[:, :2, :2]))
    angle = np.degrees(np.arctan2(matrix[:, 1, 0], matrix[:, 0, 0]))

    np.testing.assert_allclose(shift, np.rint(shift), atol=1e-9)
    assert np.rint(shift.min(axis=0)).tolist() == [-8, -8]
    assert np.rint(shift.max(axis=0)).tolist() == [8, 8]
    assert 0.5 <= scale.min() < 0.51 < 1.99 < scale.max() < 2.0
    assert -30 <= angle.min() < -29.5 < 29.5 < angle.max() < 30


def test_random_erasing_draws_as_torchvision():
    """The rectangles have the distribution of torchvision's class, place included."""
    size = (60, 90)
    ratio = (0.2, 1.5)  # not the same upside down, as the default nearly is
    drawn = draw(RandomErasing(1.0, ratio=ratio), size)
    theirs = rectangles(v2.RandomErasing(p=1.0, ratio=ratio), size)
    other = draw(RandomErasing(1.0, scale=(0.02, 0.28), ratio=ratio), size)

    hole, other_hole = drawn["holes"][:, 0], other["holes"][:, 0]
    shape, other_shape = (each[:, 2:] - each[:, :2] for each in (hole, other_hole))
    for axis in (0, 1):
        assert ks_distance(hole[:, axis], theirs[:, axis]) < KS_LIMIT
        assert ks_distance(shape[:, axis], theirs[:, 2 + axis]) < KS_LIMIT
    area = theirs[:, 2] * theirs[:, 3]
    assert ks_distance(shape.prod(axis=1), area) < KS_LIMIT
    assert ks_distance(other_shape.prod(axis=1), area) > KS_LIMIT


def test_random_erasing_leaves_an_image_that_no_rectangle_fits():
    """Where no try fits, or the rectangle is empty, the image stays as it is."""
    assert not draw(RandomErasing(1.0, scale=(1, 1)), (20, 20))["apply"].any()
    assert not draw(RandomErasing(1.0, scale=(0, 0)), (20, 20))["apply"].any()


def test_gaussian_blur_draws_sigma():
    """Sigma fills its range; one number is a fixed sigma."""
    sigma = draw(GaussianBlur(3, (0.5, 1.5)), (8, 8))["sigma"]

    assert 0.5 <= sigma.min() < 0.51 < 1.49 < sigma.max() < 1.5
    assert {0.7} == set(draw(GaussianBlur(3, 0.7), (8, 8))["sigma"])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RandomResizedCrop(0), r"RandomResizedCrop size must be .* at least 1.* got 0"),
        (lambda: RandomResizedCrop((1, 2, 3)), r"size must be .* got \(1, 2, 3\)"),
        (lambda: RandomResizedCrop(8.0), "size must be one or two whole numbers"),
        (lambda: RandomResizedCrop(8, scale=(1.0, 0.5)), r"scale must be .* got \(1\.0, 0\.5\)"),
        (lambda: RandomResizedCrop(8, scale=(0, 1)), "scale must be .* above 0"),
        (lambda: RandomResizedCrop(8, ratio=2), "ratio must be .* got 2"),
        (lambda: Resize("224"), "Resize size must be .* got '224'"),
        (lambda: CenterCrop(True), "CenterCrop size must be .* got True"),
        (lambda: HorizontalFlip(1.5), r"HorizontalFlip p must be .* 0 to 1.* got 1\.5"),
        (lambda: VerticalFlip(p=math.nan), "VerticalFlip p must be .* got nan"),
        (lambda: Grayscale("often"), "Grayscale p must be .* got 'often'"),
        (lambda: ColorJitter(-0.1), r"ColorJitter brightness must be .* got -0\.1"),
        (lambda: ColorJitter(contrast=(-1, 1)), "contrast must be .* from 0"),
        (lambda: ColorJitter(hue=0.6), r"hue must be .* from -0\.5 to 0\.5.* got 0\.6"),
        (lambda: ColorJitter(p=2), "ColorJitter p must be"),
        (lambda: GaussianBlur(4), "kernel_size must be an odd whole number.* got 4"),
        (lambda: GaussianBlur(3, (0, 1)), "sigma must be .* above 0"),
        (lambda: RandomAffine((10, -10)), r"degrees must be .* got \(10, -10\)"),
        (lambda: RandomAffine(5, (0.1, 1.1)), r"translate must be shares from 0 to 1"),
        (lambda: RandomAffine(5, 0.1), r"translate must be 2 finite numbers.* got 0\.1"),
        (lambda: RandomAffine(5, scale=(0, 1)), "scale must be .* above 0"),
        (lambda: RandomAffine(5, shear=(1, 2, 3)), r"shear must be .* got \(1, 2, 3\)"),
        (lambda: RandomAffine(5, fill="red"), "fill must be a finite number.* got 'red'"),
        (lambda: RandomErasing(scale=(0.1, 1.2)), "scale must be .* from 0 to 1"),
        (lambda: RandomErasing(value=(0, 0)), "value must be a finite number"),
        (lambda: Normalize((0.5, 0.5)), r"mean must be 3 finite numbers.* got \(0\.5, 0\.5\)"),
        (lambda: Normalize(std=(0.1, 0.0, 0.1)), "std must be 3 numbers above 0"),
    ],
)
def test_a_wrong_value_is_refused(make, message):
    """The error names the operation's field, what is allowed and what was given."""
    with pytest.raises(RecipeError, match=message):
        make()


def test_numpy_numbers_are_welcome():
    """Sizes and factors that come out of NumPy become plain numbers."""
    operation = RandomResizedCrop(np.int64(8), scale=(np.float32(0.5), 1))

    assert operation == RandomResizedCrop((8, 8), scale=(0.5, 1.0))
    assert (type(operation.size[0]), type(operation.scale[0])) == (int, float)


def test_minus_zero_is_zero():
    """A range that begins at -0.0 is written as 0.0, so equal recipes have equal files."""
    assert str(ColorJitter(0.1, hue=0.0).to_dict()) == str(ColorJitter(0.1, hue=-0.0).to_dict())
    assert "-0.0" not in str(RandomAffine(-0.0).to_dict())
