"""Properties that hold for any recipe, any image and any batch."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_aug import (
    CenterCrop,
    ColorJitter,
    GaussianBlur,
    Grayscale,
    HorizontalFlip,
    Normalize,
    OneOf,
    RandomAffine,
    RandomApply,
    RandomErasing,
    RandomOrder,
    RandomResizedCrop,
    Recipe,
    Resize,
    SomeOf,
    VerticalFlip,
)
from tests.support.engines import ENGINES, noise, planar, render
from tests.support.extent import trials

few = settings(deadline=None, max_examples=trials(25), derandomize=True, database=None)

probabilities = st.sampled_from([0.0, 0.3, 1.0])
leaves = st.one_of(
    st.builds(HorizontalFlip, probabilities),
    st.builds(VerticalFlip, probabilities),
    st.builds(Grayscale, probabilities),
    st.builds(ColorJitter, st.just(0.4), st.just(0.4), st.just(0.4), st.just(0.1), p=probabilities),
    st.builds(GaussianBlur, st.sampled_from([1, 3, 5]), p=probabilities),
    st.builds(RandomAffine, st.floats(0, 180), p=probabilities),
    st.builds(RandomErasing, probabilities),
)
operations = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(RandomApply, st.lists(inner, min_size=1, max_size=3), probabilities),
        st.builds(OneOf, st.lists(inner, min_size=1, max_size=3), p=probabilities),
        st.builds(SomeOf, st.lists(inner, min_size=1, max_size=3), p=probabilities),
        st.builds(RandomOrder, st.lists(inner, min_size=1, max_size=3), p=probabilities),
    ),
    max_leaves=6,
)
sizes = st.tuples(st.integers(8, 24), st.integers(8, 24))
seeds = st.integers(0, 2**63)


def run(
    name: str, recipe: Recipe, images: torch.Tensor, seed: int, indices: Sequence[int] = range(4)
) -> torch.Tensor:
    """Carry out a recipe on images with the draws of the samples at these indices."""
    sizes = np.full((len(images), 2), images.shape[1:3])
    draws = recipe.draw(seed, 1, np.array(indices[: len(images)]), sizes)
    return render(name, recipe, images, draws)


@few
@given(st.lists(operations, max_size=4), sizes, seeds, st.sampled_from(ENGINES))
def test_a_sample_does_not_depend_on_its_batch(steps, size, seed, name):
    """Alone, or among others in another order, a sample has the same draws and the same pixels."""
    recipe = Recipe([CenterCrop(size), HorizontalFlip(0), *steps])
    indices, images = np.array([5, 0, 2**40, 7]), noise(4, size)

    together = run(name, recipe, images, seed, indices)

    for rows in ([2, 0, 3, 1], [2]):
        other = run(name, recipe, images[rows], seed, indices[rows])
        assert (together[rows] - other).abs().max() < 1e-5


@few
@given(st.lists(operations, max_size=4), sizes, seeds)
def test_engines_agree_on_any_recipe(steps, size, seed):
    """Both engines carry out any nesting of operations in the same way."""
    recipe = Recipe([CenterCrop(size), HorizontalFlip(0), *steps])
    images = noise(4, size)

    by_kornia = run("kornia", recipe, images, seed)
    gap = by_kornia - run("albumentations", recipe, images, seed)
    assert gap.abs().max() * 255 < 0.05 + 0.05 * len(recipe.leaves)


@few
@given(st.lists(operations, min_size=1, max_size=4), sizes, seeds, st.sampled_from(ENGINES))
def test_closed_gates_change_no_bit(steps, size, seed, name):
    """With every gate closed by a combinator, images come out as they went in."""
    recipe = Recipe([CenterCrop(size), HorizontalFlip(0), RandomApply(steps, 0.0)])
    images = noise(3, size)

    out = run(name, recipe, images, seed)

    assert torch.equal(out, planar(images))


IDENTITIES = {
    "affine": RandomAffine(0),
    "jitter": ColorJitter(),
    "blur of one pixel": GaussianBlur(1),
    "resize to the same size": Resize((13, 17)),
    "crop to the same size": CenterCrop((13, 17)),
    "crop of the whole": RandomResizedCrop((13, 17), scale=(1, 1), ratio=(17 / 13, 17 / 13)),
    "normalize by nothing": Normalize((0, 0, 0), (1, 1, 1)),
}


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("label", IDENTITIES)
def test_identity_parameters_change_nothing(label, name):
    """Parameters that mean "no change" give the image back, but for rounding."""
    recipe = Recipe([CenterCrop((13, 17)), HorizontalFlip(0), IDENTITIES[label]])
    images = noise(3, (13, 17))

    out = run(name, recipe, images, 0)

    assert (out - planar(images)).abs().max() * 255 < 0.01


@few
@given(st.lists(operations, min_size=1, max_size=4), st.lists(operations, min_size=1, max_size=4))
def test_fingerprints_are_those_of_the_operations(steps, others):
    """Two recipes have one fingerprint if and only if they are equal; a round trip changes neither."""
    recipe, other = Recipe(steps), Recipe(others)

    assert (recipe.fingerprint == other.fingerprint) == (recipe == other)
    again = Recipe.from_dict(recipe.to_dict())
    assert (again, again.fingerprint) == (recipe, recipe.fingerprint)
