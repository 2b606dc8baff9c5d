"""What crops, borders and resamplings draw, against the samplers of the libraries."""

from collections import Counter

import albumentations as A
import numpy as np
import pytest
import torch
from torchvision.transforms import v2

from gpu_aug import (
    D4,
    CenterCrop,
    CropAndPad,
    Identity,
    LongestMaxSize,
    Pad,
    PadIfNeeded,
    RandomCrop,
    RandomResizedCrop,
    RandomRotate90,
    RandomScale,
    RandomSizedCrop,
    RandomZoomOut,
    Recipe,
    Resize,
    letterbox,
)
from gpu_aug.ops.combine import RandomApply
from tests.support.engines import ENGINES, render
from tests.support.laws import NUM, albumentations_draws, apart, draw, imported

SIZE = (41, 57)


def rectangle(params: dict, size: tuple[int, int]) -> list[int]:
    """Top, left, height, width in the image of what Albumentations cuts out or pads."""
    if "result_shape" in params:
        left, top, _, _ = params["crop_params"] or (0, 0, 0, 0)
        above, _, before, _ = params["pad_params"] or (0, 0, 0, 0)
        return [top - above, left - before, *params["result_shape"]]
    if "crop_coords" in params:
        pads = params.get("pad_params") or {}
        left, top, right, bottom = params["crop_coords"]
        above, before = pads.get("pad_top", 0), pads.get("pad_left", 0)
        return [top - above, left - before, bottom - top, right - left]
    above, before = params["pad_top"], params["pad_left"]
    height = size[0] + above + params["pad_bottom"]
    return [-above, -before, height, size[1] + before + params["pad_right"]]


CROPS = [
    A.RandomCrop(20, 57),
    A.RandomCrop(50, 30, pad_if_needed=True),
    A.RandomCrop(50, 90, pad_if_needed=True, pad_position="random"),
    A.RandomCrop(50, 90, pad_if_needed=True, pad_position="bottom_left"),
    A.CenterCrop(20, 30),
    A.CenterCrop(50, 30, pad_if_needed=True, pad_position="top_right"),
    A.CenterCrop(50, 90, pad_if_needed=True, pad_position="random"),
    A.Crop(3, 5, 30, 40),
    A.Crop(3, 5, 60, 40, pad_if_needed=True, pad_position="top_left"),
    A.Pad((3, 4)),
    A.Pad((1, 2, 3, 4)),
    A.PadIfNeeded(64, 50),
    A.PadIfNeeded(None, 64, pad_height_divisor=16, position="bottom_right"),
    A.PadIfNeeded(64, 64, position="random"),
    A.RandomCropFromBorders(0.1, 0.3, 0.4, 0.6),
    A.RandomCropFromBorders(),
    A.RandomResizedCrop((8, 9), scale=(0.3, 1.0)),
    A.RandomSizedCrop((10, 60), (8, 9), w2h_ratio=1.5),
    A.CropAndPad(px=(-9, 12), keep_size=False),
    A.CropAndPad(px=(-9, 12), keep_size=False, sample_independently=False),
    A.CropAndPad(px=((-9, -3), (1, 4), (-9, 12), (0, 9)), keep_size=False),
    A.CropAndPad(px=(-30, 2, -30, -1), keep_size=False),
    A.CropAndPad(percent=(-0.3, 0.2), keep_size=True),
    A.CropAndPad(percent=(-0.6, 0.0), keep_size=False),
    A.CropAndPad(percent=-0.2, keep_size=False),
]


@pytest.mark.parametrize("transform", CROPS, ids=lambda t: repr(t)[:60])
def test_a_crop_of_albumentations_keeps_its_law(transform):
    """The rectangles of the imported operation and of the class itself have one distribution."""
    theirs = np.array([rectangle(p, SIZE) for p in albumentations_draws(transform, SIZE)])
    ours = draw(imported(transform), SIZE)

    for axis in (0, 1):
        assert apart(ours["start"][:, axis], theirs[:, axis]) < 1
        assert apart(ours["shape"][:, axis], theirs[:, 2 + axis]) < 1
    bottom = (ours["start"] + ours["shape"]).sum(axis=1)
    assert apart(bottom, theirs.sum(axis=1)) < 1


RESIZES = [
    A.Resize(20, 70),
    A.LongestMaxSize(30),
    A.LongestMaxSize([30, 33, 90]),
    A.LongestMaxSize(max_size_hw=(30, 30)),
    A.LongestMaxSize(max_size_hw=(None, 31)),
    A.SmallestMaxSize([17, 23, 90]),
    A.SmallestMaxSize(max_size_hw=(30, 30)),
    A.RandomScale((-0.5, 0.7), p=1.0),
]


@pytest.mark.parametrize("transform", RESIZES, ids=lambda t: repr(t)[:60])
@pytest.mark.parametrize("size", [SIZE, (57, 41), (5, 90)])
def test_a_resize_of_albumentations_keeps_its_law(transform, size):
    """Sizes of the imported operation and of the class itself have one distribution."""
    image = np.zeros((*size, 1), np.uint8)
    drawn = albumentations_draws(transform, size, 500)
    theirs = np.array([transform.apply(image, **params).shape[:2] for params in drawn])
    operation = imported(transform)
    ours = draw(operation, size)["resize"]

    for axis in (0, 1):
        assert apart(ours[:, axis], theirs[:, axis]) < 1
    possible = operation.possible_sizes(np.array([size]))
    assert ((possible.min(axis=0) <= ours) & (ours <= possible.max(axis=0))).all()


TURNS = [A.RandomRotate90(), A.D4(), A.SquareSymmetry()]


@pytest.mark.parametrize("transform", TURNS, ids=lambda t: type(t).__name__)
def test_turns_of_albumentations_are_as_frequent(transform):
    """Each picture that the class makes of an image is made as often by ours, and no other."""
    image = np.arange(6, dtype=np.uint8).reshape(2, 3, 1)
    transform.set_random_seed(0)
    results = Counter(str(transform(image=image)["image"].tolist()) for _ in range(NUM))
    drawn = draw(imported(transform), (2, 3))
    ours: Counter[str] = Counter()
    for transpose, down, along in zip(
        drawn["transpose"], drawn["top_bottom"], drawn["left_right"], strict=True
    ):
        turned = image.transpose(1, 0, 2) if transpose else image
        ours[str(turned[:: -1 if down else 1, :: -1 if along else 1].tolist())] += 1

    assert ours.keys() == results.keys()
    for key, count in results.items():
        assert abs(ours[key] - count) < 5 * np.sqrt(2 * NUM / len(results))


def torchvision_draws(transform, size, num=NUM) -> list[dict]:
    torch.manual_seed(0)
    image = torch.zeros(3, *size)
    return [transform.make_params([image]) for _ in range(num)]


@pytest.mark.parametrize(
    "transform",
    [
        v2.RandomCrop((20, 30)),
        v2.RandomCrop((20, 30), padding=(1, 2, 3, 4)),
        v2.RandomCrop(50, padding=2, pad_if_needed=True),
        v2.RandomCrop((90, 57), pad_if_needed=True),
    ],
)
def test_random_crop_draws_as_torchvision(transform):
    """The rectangles have the distribution of torchvision's class, padding included."""
    drawn = torchvision_draws(transform, SIZE)
    theirs = np.array([[p["top"] - p["padding"][1], p["left"] - p["padding"][0]] for p in drawn])
    ours = draw(imported(transform), SIZE)["start"]

    for axis in (0, 1):
        assert apart(ours[:, axis], theirs[:, axis]) < 1


def test_random_zoom_out_draws_as_torchvision():
    """Canvas and place have the distribution of torchvision's class."""
    transform = v2.RandomZoomOut(side_range=(1.5, 3.0), p=1.0)
    theirs = np.array([p["padding"] for p in torchvision_draws(transform, SIZE)])
    ours = draw(imported(transform), SIZE)

    for axis, (before, after) in enumerate(((1, 3), (0, 2))):
        assert apart(-ours["start"][:, axis], theirs[:, before]) < 1
        assert apart(ours["shape"][:, axis] - SIZE[axis], theirs[:, [before, after]].sum(1)) < 1
    other = draw(RandomZoomOut(side_range=(1.5, 3.3), p=1.0), SIZE)
    assert apart(other["shape"][:, 0] - SIZE[0], theirs[:, 1] + theirs[:, 3]) > 1


@pytest.mark.parametrize(
    "transform",
    [
        v2.RandomResize(20, 60),
        v2.RandomShortestSize([20, 40, 90], max_size=100),
        v2.RandomShortestSize(30),
        v2.ScaleJitter((60, 80)),
        v2.Resize(30),
        v2.Resize(30, max_size=38),
        v2.Resize(None, max_size=38),
    ],
)
@pytest.mark.parametrize("size", [SIZE, (57, 41), (41, 41)])
def test_a_resize_of_torchvision_keeps_its_law(transform, size):
    """Sizes of the imported operation and of the class itself have one distribution."""
    torch.manual_seed(0)
    image = torch.zeros(1, *size)
    theirs = np.array([transform(image).shape[1:] for _ in range(300)])
    ours = draw(imported(transform), size)["resize"]

    for axis in (0, 1):
        assert apart(ours[:, axis], theirs[:, axis]) < 1


def test_the_probability_of_a_crop_of_albumentations_is_kept():
    """A crop that is done now and then becomes a RandomApply, and one that is never done nothing."""
    assert imported(A.RandomCrop(8, 9, p=0.3)) == RandomApply(
        [RandomCrop((8, 9), position="center")], p=0.3
    )
    assert imported(A.Resize(8, 9, p=0)) == Identity()


EVERY = [
    RandomCrop(9, 3, padding_mode="reflect"),
    CenterCrop((3, 900)),
    PadIfNeeded(33, padding_mode="symmetric"),
    RandomZoomOut(p=1.0),
    CropAndPad(percent=(-0.6, 0.5)),
    CropAndPad((-3, 3), keep_size=False),
    Resize(8),
    Resize(8, interpolation="bicubic", antialias=False),
    Resize((8, 9), interpolation="area"),
    LongestMaxSize(8, interpolation="nearest"),
    RandomScale((0.1, 0.2)),
    RandomSizedCrop((3, 50), 7),
    RandomRotate90(),
    D4(),
]


@pytest.mark.parametrize("size", [(1, 1), (1, 700), (700, 1), (2, 3)])
@pytest.mark.parametrize("engine", ENGINES)
def test_tiny_and_long_images_are_carried_out(size, engine):
    """No operation fails on one pixel, or on one line, and all keep their promise of the size."""
    image = torch.randint(0, 256, (1, *size, 3), dtype=torch.uint8)
    for operation in EVERY:
        recipe = Recipe([RandomApply([operation], p=1.0)])  # nothing of it in the decode stage
        assert not any(out.isnan().any() for out in render(engine, recipe, list(image)))


def test_letterbox_keeps_the_picture_in_the_middle():
    """A wide image fills the width; the borders above and below are equal and of the fill."""
    recipe = Recipe([*letterbox(40, fill=0.5)])
    draws = recipe.draw(0, 0, np.arange(1), np.array([[30, 60]]))

    assert (recipe.size, draws.crops.resize.tolist()) == ((40, 40), [[20, 40]])
    assert draws.params[0]["start"].tolist() == [[-10, 0]]


def test_a_border_is_not_resampled_while_decoding():
    """Pad before Resize leaves the resampling to the batch stage: it has to see the border."""
    recipe = Recipe([Pad(3), Resize((8, 8))])

    assert [type(leaf) for leaf in recipe.batch_leaves] == [Resize]


def first_that_fits(
    operation: RandomResizedCrop, u: np.ndarray, size: tuple[int, int]
) -> tuple[list[int], int]:
    """The rectangle of RandomResizedCrop, tried one by one in float64, and the try that fitted; 10 if none did."""
    height, width = size
    scale, (narrowest, widest) = operation.scale, operation.ratio
    log_low, log_high = np.log(narrowest), np.log(widest)
    for attempt, (share, log_ratio) in enumerate(zip(u[:10], u[10:20], strict=True)):
        area = height * width * (scale[0] + share * (scale[1] - scale[0]))
        ratio = np.exp(log_low + log_ratio * (log_high - log_low))
        tall, wide = int(np.rint(np.sqrt(area / ratio))), int(np.rint(np.sqrt(area * ratio)))
        if 0 < tall <= height and 0 < wide <= width:
            top, left = int(u[20] * (height - tall + 1)), int(u[21] * (width - wide + 1))
            return [top, left, tall, wide], attempt
    tall = min(round(width / narrowest), height) if width / height < narrowest else height
    wide = min(round(height * widest), width) if width / height > widest else width
    return [(height - tall) // 2, (width - wide) // 2, tall, wide], 10


@pytest.mark.parametrize(
    "operation", [RandomResizedCrop(8), RandomResizedCrop(8, scale=(0.3, 1.0), ratio=(0.3, 3.0))]
)
def test_random_resized_crop_takes_the_first_try_that_fits(operation):
    """Or the largest allowed rectangle in the middle, which strips get."""
    rng = np.random.default_rng(3)
    sizes = np.concatenate([rng.integers(20, 400, (200, 2)), rng.integers(1, 9, (50, 2)) * (1, 60)])
    sizes[225:] = sizes[225:, ::-1]
    u = rng.random((len(sizes), 22))

    drawn = operation.draw(u, sizes)

    expected = [first_that_fits(operation, *one) for one in zip(u, sizes.tolist(), strict=True)]
    rectangles = np.concatenate([drawn["start"], drawn["shape"]], axis=1)
    assert rectangles.tolist() == [rectangle for rectangle, _ in expected]
    attempts = np.array([attempt for _, attempt in expected])
    assert 10 < (attempts == 10).sum() < 90
    assert ((attempts > 0) & (attempts < 10)).sum() > 20
