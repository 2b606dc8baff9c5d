"""What policies draw, against what torchvision's own classes draw."""

import math
from collections import Counter
from collections.abc import Callable
from unittest.mock import patch

import numpy as np
import pytest
import torch
from torchvision import transforms as v1
from torchvision.transforms import AutoAugmentPolicy, v2

from gpu_aug import (
    AugMix,
    AutoAugment,
    CutMix,
    MixUp,
    Normalize,
    Operation,
    RandAugment,
    Recipe,
    RecipeError,
    Resize,
    TrivialAugmentWide,
)
from gpu_aug.convert.registry import TORCHVISION, Refused
from gpu_aug.convert.torchvision import mix as _  # noqa: F401 - registers the converters
from gpu_aug.draws import uniforms
from tests.support.laws import apart
from tests.support.rows.policy import read, stages

NUM = 4000


def drawn_by(operation: Operation, size: tuple[int, int], num: int = NUM) -> list[list]:
    """For each sample, what it draws per stage."""
    numbers = iter(uniforms(3, 0, np.arange(num), operation.slots))
    params, sizes = operation.draw_leaves(numbers, np.full((num, 2), size))
    assert (sizes == size).all()
    if isinstance(operation, AugMix):
        params = [drawn for _, _, drawn in operation.carried(params[0])]
        assert len(params) == 6 * operation.mixture_width * operation.num_links
    num_carriers = len(operation.carriers)
    return [
        [
            clean(read(stage))
            for stage in stages(
                [{name: values[row] for name, values in one.items()} for one in params],
                num_carriers,
            )
        ]
        for row in range(num)
    ]


def clean(chosen: tuple[str, float] | None) -> tuple[str, float] | None:
    """Without what torchvision's function drops: fractions of pixels, and rounding in the tenth digit.

    A magnitude of 0 changes nothing, whatever its operation; so it is nothing.
    """
    if chosen is None or chosen[0] == "Identity":
        return None
    name, magnitude = chosen
    if name.startswith("Translate"):
        magnitude = float(int(magnitude))
    if name == "Solarize":
        magnitude = float(math.ceil(np.float32(255 * magnitude)))  # compared with whole numbers
    still = magnitude == 0 and not name.startswith(("Auto", "Equal", "Inv", "Post", "Sol"))
    return None if still else (name, round(magnitude, 10))


def drawn_by_torchvision(transform: Callable, size: tuple[int, int], num: int = NUM) -> list[list]:
    """The calls that torchvision's class makes for each of ``num`` images."""
    calls: list = []
    kind = type(transform)

    def note(_self, image, name, magnitude, *_, **__):
        calls.append(clean((name, magnitude)))
        return image

    torch.manual_seed(0)
    image = torch.zeros(3, *size, dtype=torch.uint8)
    drawn = []
    with patch.object(kind, "_apply_image_or_video_transform", note):
        for _ in range(num):
            calls.clear()
            transform(image)
            drawn.append(list(calls))
    return drawn


def assert_same_law(ours: list, theirs: list) -> None:
    """Outcomes are as frequent; a difference like the largest allowed has a chance of 1e-6."""
    mine, other = Counter(ours), Counter(theirs)
    for outcome in mine | other:
        a, b = mine[outcome] / len(ours), other[outcome] / len(theirs)
        share = (mine[outcome] + other[outcome]) / (len(ours) + len(theirs))
        spread = math.sqrt(share * (1 - share) * (1 / len(ours) + 1 / len(theirs)))
        assert abs(a - b) <= 5.5 * spread, (outcome, a, b)


@pytest.mark.parametrize("size", [(61, 84), (333, 500)])
def test_randaugment_draws_as_torchvision(size):
    """Operations, signs and magnitudes of both stages are torchvision's, and as frequent."""
    ours = drawn_by(RandAugment(2, 9), size)
    theirs = drawn_by_torchvision(v2.RandAugment(2, 9), size)

    for stage in range(2):
        assert_same_law([one[stage] for one in ours], [one[stage] for one in theirs])
        assert {one[stage] for one in ours} == {one[stage] for one in theirs}
    assert_same_law([one[0] == one[1] for one in ours], [one[0] == one[1] for one in theirs])
    other = [one[0] for one in drawn_by(RandAugment(2, 10), size)]
    with pytest.raises(AssertionError):
        assert_same_law(other, [one[0] for one in theirs])


@pytest.mark.parametrize(("magnitude", "bins"), [(0, 31), (30, 31), (4, 10), (6, 7)])
def test_randaugment_has_torchvisions_magnitudes(magnitude, bins):
    """The outcomes are the same for weak, strong and other numbers of magnitudes."""
    arguments = {"num_ops": 1, "magnitude": magnitude, "num_magnitude_bins": bins}

    ours = drawn_by(RandAugment(**arguments), (61, 84), 1000)
    theirs = drawn_by_torchvision(v2.RandAugment(**arguments), (61, 84), 1000)

    assert {one[0] for one in ours} == {one[0] for one in theirs}


def test_trivialaugment_draws_as_torchvision():
    """Every operation with every magnitude is as frequent, and none is missing."""
    ours = [one[0] for one in drawn_by(TrivialAugmentWide(), (61, 84), 9000)]
    theirs = [one[0] for one in drawn_by_torchvision(v2.TrivialAugmentWide(), (61, 84), 9000)]

    assert_same_law(ours, theirs)
    assert_same_law(
        [one and (one[0], one[1] > 0) for one in ours],
        [one and (one[0], one[1] > 0) for one in theirs],
    )
    common = {one for one, count in Counter(theirs).items() if count > 20}
    assert common <= set(ours)
    assert len(set(ours) ^ set(theirs)) < 5  # the rarest ones have a chance of 1 in 868


@pytest.mark.parametrize("policy", ["imagenet", "cifar10", "svhn"])
def test_autoaugment_draws_as_torchvision(policy):
    """Sequences of operations are as frequent."""
    theirs = drawn_by_torchvision(v2.AutoAugment(AutoAugmentPolicy(policy)), (61, 84))
    ours = drawn_by(AutoAugment(policy), (61, 84))

    def sequence(one: list) -> tuple:
        return tuple(chosen for chosen in one if chosen)

    assert_same_law([sequence(one) for one in ours], [sequence(one) for one in theirs])


@pytest.mark.parametrize("all_ops", [True, False])
def test_augmix_draws_as_torchvision(all_ops):
    """Operations and depths of the chains are as frequent."""
    num = 1500
    ours = drawn_by(AugMix(5, 2, all_ops=all_ops), (61, 84), num)
    theirs = drawn_by_torchvision(v2.AugMix(5, 2, all_ops=all_ops), (61, 84), num)

    for feature in (
        lambda drawn: [chosen for one in drawn for chosen in one if chosen],
        lambda drawn: [sum(chosen is not None for chosen in one) for one in drawn],
    ):
        assert_same_law(feature(ours), feature(theirs))


def test_augmix_weights_have_torchvisions_law():
    """The image's share and each chain's have the laws of torchvision's own sampling."""
    operation, num = AugMix(alpha=0.7), 6000
    [u] = uniforms(3, 0, np.arange(num), operation.slots)
    ours = operation.draw(u, np.full((num, 2), 32))["weights"]

    torch.manual_seed(0)
    m = torch._sample_dirichlet(torch.full((num, 2), 0.7))
    chains = torch._sample_dirichlet(torch.full((num, 3), 0.7)) * m[:, 1:]
    theirs = torch.cat([m[:, :1], chains], dim=1).numpy()

    np.testing.assert_allclose(ours.sum(axis=1), 1)
    for place in range(4):
        assert apart(ours[:, place], theirs[:, place]) < 1


def test_depth_of_augmix_is_kept():
    """A given depth fills every place of every chain, and -1 draws 1, 2 and 3 equally often."""
    fixed = drawn_by(AugMix(10, 2, 4), (61, 84), 300)
    assert {len(one) for one in fixed} == {8}

    operation = AugMix(10, 1)
    [u] = uniforms(3, 0, np.arange(NUM), operation.slots)
    params = operation.draw(u, np.full((NUM, 2), 32))
    depth = sum(
        sum(params[f"0.{place}.{carrier}.apply"] for carrier in range(6)) for place in range(3)
    )
    assert_same_law(depth.tolist(), [1, 2, 3] * (NUM // 3))


@pytest.mark.parametrize(
    "operation",
    [
        RandAugment(3, 5, 11, interpolation="bilinear", fill=(0.1, 0.2, 0.3)),
        TrivialAugmentWide(7),
        AutoAugment("svhn"),
        AugMix(2, 4, 2, 0.5, False),
    ],
)
def test_policies_survive_a_file(operation):
    """to_dict and from_dict give the same recipe, with the same fingerprint."""
    recipe = Recipe([Resize((32, 32)), operation, Normalize()])
    again = Recipe.from_dict(recipe.to_dict())

    assert (again, again.fingerprint) == (recipe, recipe.fingerprint)


def test_policies_must_come_before_normalize():
    """They work in 8 bit."""
    for policy in (RandAugment(), AugMix()):
        with pytest.raises(RecipeError, match="before Normalize"):
            Recipe([Resize((32, 32)), Normalize(), policy])


@pytest.mark.parametrize("library", [v1, v2])
def test_torchvisions_policies_are_imported(library):
    """Both generations of classes become the same operations."""

    def convert(transform) -> Operation | None:
        return TORCHVISION[type(transform).__name__](transform)

    bilinear, bicubic = v1.InterpolationMode.BILINEAR, v1.InterpolationMode.BICUBIC
    fill = {"interpolation": "bilinear", "fill": (1.0, 0.0, 0.2), "blend": "twice"}
    for transform, expected in (
        (library.RandAugment(), RandAugment()),
        (library.RandAugment(0), None),
        (library.RandAugment(3, -1, 11, bilinear, [255, 0, 51]), RandAugment(3, 10, 11, **fill)),
        (library.TrivialAugmentWide(7), TrivialAugmentWide(7)),
        (library.AutoAugment(AutoAugmentPolicy.SVHN), AutoAugment("svhn")),
        (library.RandAugment(interpolation=bicubic), RandAugment(interpolation="bicubic")),
        (library.AugMix(), AugMix()),
        (library.AugMix(2, 4, 0, 0.5, False), AugMix(2, 4, -1, 0.5, False)),
    ):
        assert convert(transform) == expected
    for fields, reason in (
        ({"magnitude": 31}, "magnitude 31"),
        ({"interpolation": v1.InterpolationMode.LANCZOS}, "lanczos"),
    ):
        with pytest.raises(Refused, match=reason):
            convert(library.RandAugment(**fields))


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (v2.MixUp(alpha=0.2, num_classes=10), MixUp(0.2, 10, p=1.0)),
        (v2.CutMix(), CutMix(1.0, None, p=1.0)),
    ],
)
def test_torchvisions_mixing_is_imported(transform, expected):
    """Alpha and the number of classes go along."""
    assert TORCHVISION[type(transform).__name__](transform).operation == expected
