"""Combinators choose per image: how often, in which order, and the same on every engine."""

from functools import partial

import albumentations as A
import numpy as np
import pytest
import torch
from torchvision.transforms import v2

from gpu_aug import (
    CenterCrop,
    ColorJitter,
    Draws,
    GaussianBlur,
    Grayscale,
    HorizontalFlip,
    OneOf,
    Operation,
    RandomApply,
    RandomOrder,
    Recipe,
    Resize,
    SomeOf,
    VerticalFlip,
)
from tests.support.engines import draw_for, render

SIZE = (24, 31)
NUM = 4000
FLIPS = [HorizontalFlip(1), VerticalFlip(1), Grayscale(1)]


def gates(operation: Operation, num: int = NUM) -> np.ndarray:
    """Which leaf is done on which image, bool [num, leaves]."""
    draws = drawn_for(Recipe([CenterCrop(SIZE), operation]), num)
    return np.stack([params["apply"] for params in draws.params], axis=1)


def same_share(share: float, expected: float, num: int = NUM) -> bool:
    """Whether a frequency is the expected one, but for one case in a million."""
    return abs(share - expected) <= 5 * np.sqrt(expected * (1 - expected) / num) + 1e-9


def drawn_for(recipe: Recipe, num: int, *, epoch: int = 0) -> Draws:
    return recipe.draw(3, epoch, np.arange(num), np.full((num, 2), SIZE))


def run(name: str, recipe: Recipe, images: torch.Tensor, *, epoch: int = 0) -> torch.Tensor:
    return render(name, recipe, images, draw_for(recipe, images, 3, epoch))


def test_random_apply_does_all_or_none():
    """One gate for all operations, open with probability p."""
    done = gates(RandomApply(FLIPS, p=0.3))

    assert (done.all(axis=1) | ~done.any(axis=1)).all()
    assert same_share(done[:, 0].mean(), 0.3)


@pytest.mark.parametrize(
    ("operation", "shares"),
    [
        (OneOf(FLIPS, weights=[1, 2, 5], p=0.8), (0.1, 0.2, 0.5)),
        (OneOf(FLIPS, weights=[1, 0, 0]), (1, 0, 0)),
        (OneOf([HorizontalFlip(0.5), VerticalFlip(1)]), (0.25, 0.5)),
    ],
    ids=["weights", "weights of 0", "own p"],
)
def test_one_of_does_one(operation, shares):
    """One operation per image, as often as its weight, its own p and that of the choice say."""
    done = gates(operation)

    assert done.sum(axis=1).max() == 1
    for found, expected in zip(done.mean(axis=0), shares, strict=True):
        assert same_share(found, expected)


@pytest.mark.parametrize("n", [0, 1, 2, 3, (1, 3)])
def test_some_of_does_so_many_as_albumentations(n):
    """The number of operations, and each one's share, are those of Albumentations' class."""
    done = gates(SomeOf(FLIPS, n, p=0.9))
    smallest, largest = (n, n) if isinstance(n, int) else n
    number = done.sum(axis=1)

    assert set(number) == {0, *range(smallest, largest + 1)}
    mean = 0.9 * (smallest + largest) / 2
    for share in done.mean(axis=0):
        assert same_share(share, mean / 3)
    if isinstance(n, int) and n:
        theirs = A.SomeOf([A.HorizontalFlip(), A.VerticalFlip(), A.ToGray()], n=n)
        assert len(theirs._get_idx()) == n
        assert (np.diff(theirs._get_idx()) > 0).all()  # in the given order, as here


def test_random_order_does_all_in_every_order():
    """Each operation once per image, and all six orders of three are equally likely."""
    done = gates(RandomOrder(FLIPS)).reshape(NUM, 3, 3)  # image, place, operation

    assert (done.sum(axis=1) == 1).all()
    assert (done.sum(axis=2) == 1).all()
    orders = done.argmax(axis=2) @ [9, 3, 1]
    kinds, counts = np.unique(orders, return_counts=True)
    assert len(kinds) == 6
    assert all(same_share(count / NUM, 1 / 6) for count in counts)


def test_random_order_of_some():
    """With n, so many different operations are done, any of them first."""
    done = gates(RandomOrder(FLIPS, n=2)).reshape(NUM, 2, 3)

    assert (done.sum(axis=(1, 2)) == 2).all()
    assert (done.sum(axis=1) <= 1).all()
    assert same_share(done[:, 0, 2].mean(), 1 / 3)


def test_random_order_gives_the_pixels_of_torchvisions_functions():
    """Two operations that do not commute are done in the drawn order."""
    jitter, blur = ColorJitter(contrast=(3, 3)), GaussianBlur(5, (2, 2))
    recipe = Recipe([CenterCrop(SIZE), RandomOrder([jitter, blur])])
    images = torch.randint(0, 256, (16, *SIZE, 3), dtype=torch.uint8)
    jitter_first = drawn_for(recipe, 16).params[0]["apply"]
    contrast = partial(v2.functional.adjust_contrast, contrast_factor=3.0)
    blurred = partial(v2.functional.gaussian_blur, kernel_size=[5, 5], sigma=[2.0, 2.0])

    results = run("kornia", recipe, images)

    assert 0 < jitter_first.sum() < 16
    for image, first, result in zip(images, jitter_first, results, strict=True):
        x = image.permute(2, 0, 1).float() / 255
        orders = [blurred(contrast(x)), contrast(blurred(x))]
        expected, other = orders if first else orders[::-1]
        assert (expected - result).abs().max() < 0.001
        assert (other - result).abs().max() > 0.05


NESTED = OneOf(
    [
        RandomApply([ColorJitter(0.4, 0.4, 0.4, 0.1), SomeOf(FLIPS, (1, 2))], p=0.7),
        RandomOrder([GaussianBlur(5), HorizontalFlip()]),
        Grayscale(0.5),
    ],
    weights=[3, 2, 1],
    p=0.9,
)


def test_engines_agree_on_nested_combinators():
    """Engines carry out the same leaves on the same images."""
    recipe = Recipe([CenterCrop(SIZE), NESTED])
    images = torch.randint(0, 256, (40, *SIZE, 3), dtype=torch.uint8)
    by_kornia = run("kornia", recipe, images)

    for name in ("albumentations", "fused"):
        assert (by_kornia - run(name, recipe, images)).abs().max() * 255 < 0.1
        assert (by_kornia - run(name, recipe, images, epoch=1)).abs().max() * 255 > 10


def test_sizes_follow_the_choice():
    """An image that was not resized reaches the next operation with its own size."""
    recipe = Recipe([CenterCrop(60), RandomApply([Resize((30, 40))]), CenterCrop((30, 20))])
    draws = recipe.draw(0, 0, np.arange(50), np.full((50, 2), 80))
    resized, crop = draws.params[0]["apply"], draws.params[1]["start"]

    assert 0 < resized.sum() < 50
    np.testing.assert_array_equal(crop[resized], np.full((resized.sum(), 2), (0, 10)))
    np.testing.assert_array_equal(crop[~resized], np.full(((~resized).sum(), 2), (15, 20)))
