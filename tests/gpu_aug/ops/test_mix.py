"""MixUp, CutMix and Mosaic: what they draw, their pixels, and soft labels."""

from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import patch

import kornia.augmentation as K
import numpy as np
import pytest
import torch
from torchvision.transforms import v2

from gpu_aug import (
    CutMix,
    Draws,
    HorizontalFlip,
    MixUp,
    Mosaic,
    Normalize,
    OneOf,
    Operation,
    RandomApply,
    Recipe,
    RecipeError,
    Resize,
)
from gpu_aug.draws import uniforms
from gpu_aug.ops.distributions.gamma import beta, log_gammas
from gpu_aug.targets.soft_labels import soft_labels
from tests.support.engines import ENGINES, draw_for, noise, planar, render
from tests.support.laws import apart

SIZE = (20, 33)
NUM_DRAWS = 20000


def numbers(count: int, num: int = NUM_DRAWS) -> np.ndarray:
    return uniforms(5, 0, np.arange(num), [count])[0]


def recipe_with(*operations: Operation) -> Recipe:
    return Recipe([Resize(SIZE), HorizontalFlip(0), *operations])


def mixed(name: str, operation: Operation, num: int) -> tuple[torch.Tensor, Draws, torch.Tensor]:
    """Images [num, 3, *SIZE], draws, and what an engine makes of them; it leaves its input alone."""
    recipe, pictures = recipe_with(operation), noise(num, SIZE)
    draws = draw_for(recipe, pictures)
    results = render(name, recipe, pictures, draws)
    assert torch.equal(pictures, noise(num, SIZE))
    return planar(pictures), draws, results


@pytest.mark.parametrize("alpha", [0.1, 0.2, 0.4, 1.0, 1.5, 8.0])
def test_beta_has_its_law(alpha):
    """The numbers are Beta(alpha, alpha), as torch.distributions draws it."""
    torch.manual_seed(0)
    law = torch.distributions.Beta(
        torch.tensor(alpha, dtype=torch.float64), torch.tensor(alpha, dtype=torch.float64)
    )
    theirs = law.sample((NUM_DRAWS,)).numpy()

    ours = beta(numbers(2), alpha)

    assert apart(ours, theirs) < 1 < apart(beta(numbers(2), alpha * 1.3), theirs)


@pytest.mark.parametrize("shape", [0.1, 0.7, 0.999, 1.0, 1.001, 3.0, 70.0])
def test_gamma_numbers_invert_the_law(shape):
    """The incomplete gamma function of torch, from outside the inversion, gives the numbers back."""
    u = np.concatenate([numbers(1, 2000)[:, 0], [0.0, 0.5, 1 - 2.0**-32]])
    x = np.exp(log_gammas(u, shape))

    back = torch.special.gammainc(
        torch.full((len(x),), shape, dtype=torch.float64), torch.from_numpy(x)
    )

    known = x > 1e-300
    np.testing.assert_allclose(back.numpy()[known], (u + 2.0**-33)[known], rtol=1e-8)


def test_gamma_numbers_are_finite_for_tiny_shapes():
    """A shape whose numbers are below every float still gives logarithms, and a beta law of 0 and 1."""
    assert np.isfinite(log_gammas(np.array([0.0, 0.5]), 1e-3)).all()
    lam = beta(numbers(2), 1e-4)
    assert 0.48 < lam.mean() < 0.52
    assert ((lam < 0.01) | (lam > 0.99)).mean() > 0.99


def test_cutmix_box_is_torchvisions():
    """On the same lambda and centre, torchvision's class has the same box and the same share."""
    operation = CutMix(1.0)
    u = numbers(5, 300)
    drawn = operation.draw(u, np.full((300, 2), SIZE))
    lam = beta(u[:, 1:3], 1.0)
    transform = v2.CutMix(num_classes=10)

    clipped = 0
    for row in range(300):
        centers = iter((u[row, [4, 3]] * SIZE[::-1]).astype(int))  # x, then y
        transform._dist = SimpleNamespace(sample=lambda _, row=row: torch.tensor(lam[row]))
        with patch("torch.randint", lambda *_, c=centers, **__: torch.tensor([int(next(c))])):
            expected = transform.make_params([torch.zeros(2, 3, *SIZE)])
        (top, left), (height, width) = drawn["start"][row], drawn["shape"][row]
        assert expected["box"] == (left, top, left + width, top + height)
        assert expected["lam_adjusted"] == pytest.approx(drawn["lam"][row], abs=1e-12)
        clipped += drawn["lam"][row] > lam[row] + 0.05
    assert clipped > 30


def test_mosaic_window_starts_as_kornias():
    """The window's corner has the distribution of Kornia's generator."""
    torch.manual_seed(0)
    theirs = K.random_generator.MosaicGenerator()((3000, 3, 61, 84))["src"][:, 0].numpy()
    u = numbers(3, 3000)

    ours = Mosaic().draw(u, np.full((3000, 2), (61, 84)))["start"][:, ::-1]

    assert (ours.min(0).tolist(), ours.max(0).tolist()) == (
        theirs.min(0).tolist(),
        theirs.max(0).tolist(),
    )
    for axis in range(2):
        assert apart(ours[:, axis], theirs[:, axis]) < 1


@pytest.mark.parametrize("name", ENGINES)
def test_mixup_has_torchvisions_pixels(name):
    """Each image is torchvision's blend of the pair with the drawn lambda."""
    before, draws, results = mixed(name, MixUp(0.4), 6)

    transform = v2.MixUp(num_classes=2)
    for row in range(6):
        pair = before[[row, row ^ 1]]
        params = {"labels": None, "batch_size": 2, "lam": float(draws.params[-1]["lam"][row])}
        expected = transform.transform(pair, params)[0]
        assert (results[row] - expected).abs().max() * 255 < 0.0001


@pytest.mark.parametrize("name", ENGINES)
def test_cutmix_has_torchvisions_pixels(name):
    """Each image is torchvision's patchwork of the pair with the drawn box."""
    before, draws, results = mixed(name, CutMix(), 6)

    transform, drawn = v2.CutMix(num_classes=2), draws.params[-1]
    for row in range(6):
        start, stop = drawn["start"][row], drawn["start"][row] + drawn["shape"][row]
        params = {"labels": None, "batch_size": 2, "box": (start[1], start[0], stop[1], stop[0])}
        assert torch.equal(results[row], transform.transform(before[[row, row ^ 1]], params)[0])


@pytest.mark.parametrize("name", ENGINES)
def test_mosaic_has_kornias_pixels(name):
    """Each image is Kornia's mosaic of the same four images with the same corner."""
    before, draws, results = mixed(name, Mosaic((0.0, 1.0)), 8)

    rows = np.arange(8)
    ahead = [4 * (rows // 4) + (rows + step) % 4 for step in range(4)]
    corner = torch.from_numpy(draws.params[-1]["start"][:, ::-1].copy()).float()
    module = K.RandomMosaic(p=1.0)
    params = {
        "permutation": torch.from_numpy(np.stack(ahead, axis=1)),
        "src": corner[:, None] + torch.tensor([[0, 0], [32, 0], [32, 19], [0, 19]]),
        "dst": torch.tensor([[[0, 0], [32, 0], [32, 19], [0, 19]]]).repeat(8, 1, 1),
        "batch_shapes": torch.tensor([[3, *SIZE]]).repeat(8, 1),
        "batch_prob": torch.ones(8),
    }
    expected = module.apply_transform(before, params, module.flags)
    assert torch.equal(results, expected)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("operation", [MixUp(), CutMix(), Mosaic()])
def test_results_do_not_depend_on_the_batch(operation, name):
    """The same samples at the same positions give the same pixels in other company and order."""
    recipe, pictures = recipe_with(operation), noise(8, SIZE)
    order = np.array([6, 4, 7, 5])
    draws = recipe.draw(1, 0, order, np.full((4, 2), SIZE), positions=order, length=8)

    part = render(name, recipe, pictures[order], draws)

    assert torch.equal(part, render(name, recipe, pictures)[order])


@pytest.mark.parametrize("name", ENGINES)
def test_an_image_without_partner_stays_as_it_is(name):
    """The last image of an epoch of odd length is mixed with nothing, and keeps its label."""
    recipe, pictures = recipe_with(MixUp(), CutMix(), Mosaic()), noise(5, SIZE)
    assert torch.equal(render(name, recipe, pictures)[4], planar(pictures)[4])
    labels = soft_labels(recipe, draw_for(recipe, pictures), np.arange(5), 5)
    assert labels[4].tolist() == [0, 0, 0, 0, 1]


def with_params(recipe: Recipe, *changes: dict) -> Draws:
    """Draws of 4 samples whose last operations have these parameters."""
    draws = draw_for(recipe, noise(4, SIZE))
    first = len(draws.params) - len(changes)
    mine = [
        params | {name: np.array(value) for name, value in change.items()}
        for params, change in zip(draws.params[first:], changes, strict=True)
    ]
    return replace(draws, params=(*draws.params[:first], *mine))


T, F = True, False
SOFT = {
    "a closed gate keeps the label": (
        [MixUp(num_classes=3)],
        [{"lam": [0.25, 0.5, 1.0, 0.1], "apply": [T, T, T, F]}],
        [0, 2, 1, 1],
        [[0.25, 0, 0.75], [0.5, 0, 0.5], [0, 1, 0], [0, 1, 0]],
    ),
    # After the first: (1/4, 3/4), (1/2, 1/2), (1, 0), (0, 1).
    "the second mixes what the first made": (
        [MixUp(num_classes=2), CutMix()],
        [
            {"lam": [0.25, 0.5, 1.0, 1.0], "apply": [T] * 4},
            {"lam": [0.5, 1.0, 0.75, 1.0], "apply": [T] * 4},
        ],
        [0, 1, 0, 1],
        [[0.375, 0.625], [0.5, 0.5], [0.75, 0.25], [0, 1]],
    ),
    "each image has the operation that it got": (
        [OneOf([MixUp(num_classes=2), CutMix(num_classes=2)]), Normalize()],
        [
            {"lam": [0.25, 0.5, 0.5, 0.5], "apply": [T, F, T, T]},
            {"lam": [0.5, 0.5, 0.5, 0.5], "apply": [F, T, F, F]},
            {},
        ],
        [0, 1, 0, 0],
        [[0.25, 0.75], [0.125, 0.875], [1, 0], [1, 0]],
    ),
}


@pytest.mark.parametrize("name", SOFT)
def test_soft_labels_by_hand(name):
    """A share lam for the image's own class, the rest for the partner's."""
    operations, drawn, labels, expected = SOFT[name]
    recipe = recipe_with(*operations)

    soft = soft_labels(recipe, with_params(recipe, *drawn), np.array(labels))

    np.testing.assert_array_equal(soft, np.float32(expected), strict=True)


def test_soft_labels_of_mosaic_are_areas():
    """Every source counts by the pixels it has in the window."""
    recipe = recipe_with(Mosaic(num_classes=4))
    draws = draw_for(recipe, noise(4, SIZE))
    labels = soft_labels(recipe, draws, np.arange(4))
    # Images of one colour each: the mean is the share.
    pictures = torch.zeros(4, *SIZE, 3, dtype=torch.uint8)
    for channel in range(3):
        pictures[channel, ..., channel] = 255
    shares = render("kornia", recipe, pictures, draws).mean(dim=(2, 3))
    np.testing.assert_allclose(labels[:, :3], shares.numpy(), atol=1e-6)


def test_soft_labels_take_soft_labels_and_recipes_without_mixing():
    """Float labels [B, C] go through; without mixing they come back."""
    recipe = recipe_with(Normalize())
    given = np.random.default_rng(0).random((4, 3))

    np.testing.assert_array_equal(
        soft_labels(recipe, draw_for(recipe, noise(4, SIZE)), given), given.astype(np.float32)
    )


@pytest.mark.parametrize(
    ("operations", "labels", "num_classes", "said"),
    [
        ([MixUp()], np.array([0, 1]), None, "num_classes must be known"),
        ([MixUp()], np.array([0, 2]), 2, "below num_classes, 2"),
        ([MixUp()], np.array([-1, 1]), 2, "1 of 2 labels of the batch are -1"),
        ([MixUp()], np.array([0, 1, 1]), 2, r"shape \(2,\)"),
        ([MixUp()], np.array([0.0, 1.0]), 2, "whole numbers"),
        ([MixUp()], np.zeros((2, 3)), 2, "2 columns"),
        ([MixUp(num_classes=2), CutMix(num_classes=3)], np.array([0, 1]), None, r"\[2, 3\]"),
    ],
)
def test_bad_labels_are_refused(operations, labels, num_classes, said):
    """The error says what was got and what is allowed, or which operations contradict each other."""
    recipe = recipe_with(*operations)
    with pytest.raises(RecipeError, match=said):
        soft_labels(recipe, draw_for(recipe, noise(2, SIZE)), labels, num_classes)


@pytest.mark.parametrize("operation", [MixUp(), CutMix(), Mosaic()])
def test_images_of_different_sizes_are_refused(operation):
    """The recipe is refused by the operation's name, also within a combinator."""
    for inner in (operation, RandomApply([operation])):
        with pytest.raises(RecipeError, match=type(operation).__name__):
            Recipe([Resize(20), inner])


@pytest.mark.parametrize("name", ENGINES)
def test_a_choice_between_mixing_operations_is_made_for_the_pair(name):
    """Both images of a pair get the same operation, so each reads its partner as it was."""
    choice = OneOf([MixUp(num_classes=2), CutMix(num_classes=2)])
    recipe, pictures = recipe_with(choice), noise(64, SIZE)
    draws = draw_for(recipe, pictures)
    mixup, cutmix = draws.params[1]["apply"], draws.params[2]["apply"]

    assert (mixup == mixup[np.arange(64) ^ 1]).all()
    assert 16 < mixup.sum() < 48
    lam = np.where(mixup, draws.params[1]["lam"], draws.params[2]["lam"])
    labels = soft_labels(recipe, draws, np.arange(64) % 2)
    np.testing.assert_allclose(labels[np.arange(64), np.arange(64) % 2], lam, atol=1e-6)

    alone = render(name, recipe_with(CutMix()), pictures, replace(draws, params=draws.params[::2]))
    assert torch.equal(render(name, recipe, pictures, draws)[cutmix], alone[cutmix])


def test_a_choice_for_a_pair_depends_on_positions_alone():
    """In another batch, the same pair makes the same choice, and differs from epoch to epoch."""
    recipe = recipe_with(RandomApply([OneOf([MixUp(), CutMix()])], 0.7))
    sizes = np.full((40, 2), SIZE)
    whole = recipe.draw(1, 0, np.arange(40)[::-1].copy(), sizes, positions=np.arange(40), length=40)
    part = recipe.draw(
        1, 0, np.arange(40)[::-1][10:14].copy(), sizes[:4], positions=np.arange(10, 14), length=40
    )
    later = recipe.draw(1, 1, np.arange(40), sizes, positions=np.arange(40), length=40)

    for leaf in (1, 2):
        assert (whole.params[leaf]["apply"][10:14] == part.params[leaf]["apply"]).all()
    assert (whole.params[1]["apply"] != later.params[1]["apply"]).any()
