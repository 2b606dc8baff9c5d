"""What operations draw, against torchvision's rules and against its own random classes."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as tv

from gpu_aug import (
    JPEG,
    AdditiveNoise,
    AdvancedBlur,
    Affine,
    AugMix,
    AutoAugment,
    Blur,
    CenterCrop,
    ColorJitter,
    CropAndPad,
    CutMix,
    Defocus,
    Downscale,
    ElasticDistortion,
    ElasticTransform,
    FixedCrop,
    FrameDrop,
    GaussianBlur,
    GaussianNoise,
    GaussNoise,
    GlassBlur,
    Grayscale,
    GridDistortion,
    HorizontalFlip,
    LongestMaxSize,
    MixUp,
    Mosaic,
    MotionBlur,
    Normalize,
    OneOf,
    Pad,
    PadIfNeeded,
    PiecewiseAffine,
    RandAugment,
    RandomAffine,
    RandomApply,
    RandomCrop,
    RandomErasing,
    RandomGaussianBlur,
    RandomOrder,
    RandomPerspective,
    RandomResize,
    RandomResizedCrop,
    RandomRotation,
    RandomScale,
    RandomSizedCrop,
    RandomZoomOut,
    Recipe,
    RecipeError,
    Resize,
    Sharpen,
    ShotNoise,
    SomeOf,
    Spatter,
    SpeedJitter,
    Superpixels,
    TemporalReverse,
    ThinPlateSpline,
    TrivialAugmentWide,
    UnsharpMask,
    VerticalFlip,
    ZoomBlur,
)
from tests.support.laws import apart
from tests.support.laws import draw as draw_some

NUM_DRAWS = 3000
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
        assert apart(values, expected[name]) < 1, name
    changed = features(other["start"], other["shape"])
    assert apart(changed["area"], expected["area"]) > 1


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


def test_color_jitter_draws_every_order_alike():
    """All 24 orders are drawn, each about as often as the others (chi-square)."""
    orders, counts = np.unique(draw(ColorJitter(0.4), (8, 8))["order"], axis=0, return_counts=True)
    expected = NUM_DRAWS / 24

    assert list(orders.shape) == [24, 4]
    assert (np.sort(orders, axis=1) == np.arange(4)).all()
    assert ((counts - expected) ** 2 / expected).sum() < 49.7  # the 99.9 % point, 23 degrees


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
        assert apart(hole[:, axis], theirs[:, axis]) < 1
        assert apart(shape[:, axis], theirs[:, 2 + axis]) < 1
    area = theirs[:, 2] * theirs[:, 3]
    assert apart(shape.prod(axis=1), area) < 1
    assert apart(other_shape.prod(axis=1), area) > 1


def test_random_erasing_leaves_an_image_that_no_rectangle_fits():
    """Where no try fits, or the rectangle is empty, the image stays as it is."""
    assert not draw(RandomErasing(1.0, scale=(1, 1)), (20, 20))["apply"].any()
    assert not draw(RandomErasing(1.0, scale=(0, 0)), (20, 20))["apply"].any()


FLIPS = [HorizontalFlip(1), VerticalFlip(1), Grayscale(1)]


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
        (lambda: Blur(4), r"Blur kernel_size must be an odd whole number.* got 4"),
        (lambda: Blur((7, 3)), r"kernel_size must be .* got \(7, 3\)"),
        (lambda: GaussianBlur((3, 4)), r"kernel_size must be an odd .* got \(3, 4\)"),
        (lambda: RandomGaussianBlur(sigma=(0, 0)), r"sigma must be a range that reaches above 0"),
        (lambda: MotionBlur(direction=(-2, 1)), r"direction must be .* got \(-2, 1\)"),
        (lambda: Sharpen(method="soft"), "method must be 'kernel' or 'gaussian', got 'soft'"),
        (lambda: Sharpen((0.5, 1.5)), r"alpha must be .* to 1"),
        (lambda: UnsharpMask(threshold=300), "threshold must be a number from 0 to 255"),
        (lambda: ZoomBlur(step_factor=(0, 1)), "step_factor must be .* from 0.001"),
        (lambda: AdvancedBlur(beta=(2, 3)), r"beta must be a range around 1"),
        (lambda: Defocus((0, 3)), r"radius must be whole numbers .* from 1"),
        (lambda: GaussianNoise(sigma=-1), "sigma must be a number from 0"),
        (lambda: GaussNoise((0.5, 1.5)), "std_range must be .* to 1"),
        (
            lambda: AdditiveNoise("beta"),
            "noise_type must be one of .uniform., .gaussian., .laplace.",
        ),
        (lambda: AdditiveNoise(ranges=((0, 1), (0, 1))), "ranges must be one range"),
        (lambda: ShotNoise((0, 0.1)), "scale_range must be .* from 0.002"),
        (lambda: JPEG(0), "JPEG quality must be whole numbers"),
        (lambda: JPEG((50, 101)), "quality must be whole numbers up to 100"),
        (lambda: JPEG(50, channels="gbr"), "channels must be 'rgb' or 'bgr'"),
        (lambda: Downscale(down="cubic"), "down must be one of .nearest.* got 'cubic'"),
        (lambda: Superpixels(max_size=0), "max_size must be a whole number from 1"),
        (lambda: Spatter(color=(1, 2)), "color must be 3 finite numbers"),
        (lambda: GlassBlur(max_delta=0), "max_delta must be a whole number from 1"),
        (lambda: RandomCrop(0), "RandomCrop size must be"),
        (lambda: RandomCrop(8, -1), "RandomCrop padding must be"),
        (lambda: RandomCrop(8, padding_mode="wrap"), "RandomCrop padding_mode must be one of"),
        (lambda: RandomCrop(8, fill="red"), "RandomCrop fill must be"),
        (lambda: CenterCrop(8, fill_mask=0.5), "CenterCrop fill_mask must be a whole number"),
        (lambda: FixedCrop(8, "middle"), "FixedCrop position must be"),
        (lambda: Pad((1, 2, 3)), "Pad padding must be"),
        (lambda: PadIfNeeded(), "PadIfNeeded needs"),
        (lambda: PadIfNeeded(8, divisor=8), "PadIfNeeded needs"),
        (lambda: Resize(None), "Resize size must be"),
        (lambda: Resize(8, max_size=8), "max_size must be larger than size"),
        (lambda: Resize(8, interpolation="lanczos"), "Resize interpolation must be one of"),
        (lambda: LongestMaxSize(), "needs either max_size or max_size_hw"),
        (lambda: RandomResize(8, 8), "RandomResize max_size must be"),
        (lambda: RandomScale((0, 1)), "RandomScale scale must be"),
        (lambda: RandomSizedCrop((9, 8), 8), "min_max_height must be"),
        (lambda: RandomZoomOut(side_range=(0.5, 2)), "side_range must be"),
        (lambda: CropAndPad(), "needs either px or percent"),
        (lambda: CropAndPad("all"), "px must be"),
        (lambda: RandomErasing(value=(1, 2)), "value must be"),
        (lambda: RandAugment(magnitude=31), "magnitude must be a whole number from 0 to 30"),
        (lambda: RandAugment(num_ops=0), "num_ops"),
        (lambda: TrivialAugmentWide(1), "num_magnitude_bins"),
        (lambda: AutoAugment("coco"), "policy"),
        (lambda: AugMix(11), "severity"),
        (lambda: AugMix(alpha=0), "alpha"),
        (lambda: AugMix(chain_depth=0), "chain_depth"),
        (lambda: RandAugment(interpolation="lanczos"), "interpolation"),
        (lambda: RandAugment(fill="red"), "fill"),
        (lambda: MixUp(0.0), "alpha must be a number above 0"),
        (lambda: CutMix(-1), "alpha"),
        (lambda: CutMix(num_classes=0), "num_classes"),
        (lambda: Mosaic((0.7, 0.3)), "center_range"),
        (lambda: Mosaic(p=2), "p must be"),
        (lambda: OneOf([]), r"OneOf operations must be a list of at least one operation, got \[\]"),
        (lambda: OneOf(HorizontalFlip()), "OneOf operations must be a list"),
        (lambda: SomeOf(["flip"]), "operation 0 of SomeOf must be an Operation .* got 'flip'"),
        (lambda: SomeOf(FLIPS, 4), r"SomeOf n must be a whole number from 0 to 3, .* got 4"),
        (lambda: SomeOf(FLIPS, (2, 1)), r"SomeOf n must be .* got \(2, 1\)"),
        (lambda: RandomOrder(FLIPS, n=1.5), r"RandomOrder n must be .* got 1\.5"),
        (lambda: OneOf(FLIPS, weights=[1, 2]), r"OneOf weights must be 3 finite numbers"),
        (lambda: OneOf(FLIPS, weights=[0, 0, 0]), r"OneOf weights must be .* not all 0"),
        (lambda: OneOf(FLIPS, weights=[1, -1, 1]), r"OneOf weights must be numbers from 0"),
        (lambda: RandomApply(FLIPS, p=1.1), r"RandomApply p must be a probability .* got 1\.1"),
        (lambda: TemporalReverse(2), "TemporalReverse p must be a probability from 0 to 1"),
        (
            lambda: FrameDrop(1),
            "FrameDrop dropout_prob must be a number from 0 to below 1",
        ),
        (lambda: FrameDrop(0.1, p=-1), "FrameDrop p must be"),
        (lambda: SpeedJitter(2), "SpeedJitter speed must be .* such as"),
        (lambda: SpeedJitter((0, 1)), "SpeedJitter speed must be .* above 0"),
        (
            lambda: Recipe([OneOf([TemporalReverse(), HorizontalFlip()])]),
            "TemporalReverse must be a step of the recipe itself, got it inside OneOf",
        ),
        (
            lambda: Recipe([RandomApply([RandomApply([FrameDrop()])])]),
            "FrameDrop must be a step of the recipe itself, got it inside RandomApply",
        ),
        (lambda: RandomAffine(9, interpolation="lanczos"), "nearest"),
        (lambda: RandomAffine(9, padding_mode="wrap"), "edge"),
        (lambda: RandomAffine(9, interpolation="bicubic", padding_mode="reflect"), "bilinear"),
        (lambda: RandomAffine(9, fill=(1, 2)), "fill"),
        (lambda: RandomAffine(9, blend="thrice"), "once"),
        (lambda: RandomRotation(9, center=3), "center"),
        (lambda: RandomPerspective(1.5), "distortion_scale"),
        (lambda: RandomPerspective(0.9, padding_mode="reflect"), "horizon"),
        (lambda: Affine(scale=0), "scale"),
        (lambda: Affine(scale=((0.5, 1), (1, 2)), keep_ratio=True), "keep_ratio"),
        (lambda: Affine(translate_px=3, translate_percent=0.1), "translate_px"),
        (lambda: ElasticTransform(sigma=(0.0, 3.0)), "sigma"),
        (lambda: ElasticDistortion(sigma=0.5), "sigma"),
        (lambda: GridDistortion(0), "num_steps"),
        (lambda: Recipe([Resize((3, 9)), GridDistortion(5)]), "3x9"),
        (lambda: PiecewiseAffine(0), "scale"),
        (lambda: ThinPlateSpline(num_control_points=1), "num_control_points"),
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
