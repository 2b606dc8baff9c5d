"""Random fields: Philox's numbers, their laws, and that nothing but key and place matters."""

import math

import numpy as np
import pytest
import torch

from gpu_aug import (
    AdditiveNoise,
    GaussianNoise,
    GaussNoise,
    MultiplicativeNoise,
    SaltAndPepper,
    ShotNoise,
)
from gpu_aug.draws import philox4x32, uniforms
from gpu_aug.ops.imported.noise import _smallest
from gpu_aug.random_fields import (
    _make_normal,
    _philox_torch,
    keys,
    normal_field,
    poisson,
    uniform_field,
)
from tests.support.laws import draw

CPU = torch.device("cpu")
KEYS = keys(uniforms(5, 0, np.arange(6), [2])[0])
SHAPE = (3, 40, 61)
NUM = math.prod(SHAPE)
# The Kolmogorov-Smirnov distance that n numbers of a law exceed in one case of a million.
LIMIT = math.sqrt(-0.5 * math.log(1e-6 / 2))


def distance(values: torch.Tensor, cumulated: np.ndarray) -> float:
    """The Kolmogorov-Smirnov distance, times sqrt(n); ``cumulated`` at the sorted values."""
    n = values.numel()
    steps = np.arange(1, n + 1) / n
    gap = max(np.abs(steps - cumulated).max(), np.abs(steps - 1 / n - cumulated).max())
    return float(gap * math.sqrt(n))


def normal_cumulated(values: torch.Tensor) -> np.ndarray:
    return torch.special.ndtr(values.flatten().double().sort().values).numpy()


@pytest.mark.parametrize("shape", [SHAPE, (5, 7), (3, 200, 201)])
def test_uniform_fields_are_philox(shape):
    """The numbers are the upper 24 bits of Philox's words for counters (i, 0, 0, stream), also in fields of several chunks."""
    field = uniform_field(KEYS, shape, CPU, stream=7)

    num = math.prod(shape)
    counter = np.zeros((4, -(-num // 4)), np.uint32)
    counter[0], counter[3] = np.arange(counter.shape[1]), 7
    for row, key in zip(field, KEYS, strict=True):
        words = philox4x32(counter, key).T.ravel()[:num].reshape(shape)
        np.testing.assert_array_equal(row.numpy(), (words >> 8) * 2.0**-24)


def test_torch_and_numpy_make_the_same_bits():
    """The function for other devices, run on the CPU, agrees bit by bit."""
    key = torch.from_numpy(KEYS.astype(np.int64))
    words = _philox_torch(NUM // 4, key, 3).view(len(KEYS), *SHAPE)

    assert torch.equal(words * 2.0**-24, uniform_field(KEYS, SHAPE, CPU, stream=3))
    assert not torch.equal(words * 2.0**-24, uniform_field(KEYS, SHAPE, CPU, stream=4))


@pytest.mark.needs_cuda
def test_devices_make_the_same_fields():
    """Uniform numbers are the same bits on CUDA, normal numbers the same to rounding."""
    cuda = torch.device("cuda")

    assert torch.equal(uniform_field(KEYS, SHAPE, cuda).cpu(), uniform_field(KEYS, SHAPE, CPU))
    gap = (normal_field(KEYS, SHAPE, cuda).cpu() - normal_field(KEYS, SHAPE, CPU)).abs().max()
    assert gap < 1e-5


@pytest.mark.parametrize("field", [uniform_field, normal_field])
@pytest.mark.parametrize("shape", [(3, 40, 61), (1, 1, 1), (5, 7), (3, 1, 1)])
def test_a_field_does_not_depend_on_the_batch(field, shape):
    """Each row is the field of its key alone, in any batch and order."""
    together = field(KEYS, shape, CPU)

    assert together.shape == (len(KEYS), *shape)
    for row in range(len(KEYS)):
        assert torch.equal(field(KEYS[row : row + 1], shape, CPU)[0], together[row])
    assert torch.equal(field(KEYS[::-1], shape, CPU), together.flip(0))


def polar(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The normal numbers that the method of Box and Muller makes of uniform numbers, interleaved, in float64."""
    radius, angle = np.sqrt(-2 * np.log(u + 2.0**-24)), 2 * np.pi * v
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1).ravel()


def test_normal_numbers_are_those_of_the_formula():
    """They are rounded from float64, also at both ends of the logarithm and at each eighth of a turn."""
    step = 2.0**-24
    ends = [0, step, 0.25 - step, 0.5 - step, 0.5, 0.70710678 - step, 0.75, 1 - 2 * step, 1 - step]
    turns = [max(eighth / 8 + away * step, 0) for eighth in range(8) for away in (-1, 0, 1)]
    u, v = (grid.ravel() for grid in np.meshgrid(ends, [*turns, 1 - step]))
    u, v = np.floor(u / step) * step, v.astype(np.float64)
    numbers = np.stack([u, v], axis=-1).astype(np.float32).ravel()
    _make_normal(numbers)
    field, pairs = (make(KEYS, (3, 100, 101), CPU) for make in (normal_field, uniform_field))

    np.testing.assert_allclose(numbers, polar(u, v), rtol=1e-7, atol=1e-14)
    pairs = pairs.flatten().double().numpy().reshape(-1, 2).T
    np.testing.assert_allclose(field.flatten().numpy(), polar(*pairs), rtol=1e-7, atol=1e-14)
    assert not np.allclose(numbers, polar(u, v + step), rtol=1e-7, atol=1e-14)


def test_normal_numbers_are_normal():
    """Each row follows the law; mean and variance are 0 and 1."""
    field = normal_field(KEYS, (3, 200, 201), CPU)
    for row in field:
        assert distance(row, normal_cumulated(row)) < LIMIT
        assert distance(row, normal_cumulated(row * 1.03)) > LIMIT
    n = field.numel()
    assert abs(field.mean()) < 5 / math.sqrt(n)
    assert abs(field.var() - 1) < 5 * math.sqrt(2 / n)
    assert 4.3 < field.max() < 5.8


@pytest.mark.parametrize("field", [uniform_field, normal_field])
def test_samples_channels_and_neighbours_are_independent(field):
    """Nothing correlates between keys, channels or neighbouring pixels."""
    fields = field(KEYS, (3, 100, 100), CPU).flatten(0, 1).flatten(1).double().numpy()
    limit = 5 / math.sqrt(fields.shape[1])

    between = np.corrcoef(fields) - np.eye(len(fields))
    assert np.abs(between).max() < limit
    for step in (1, 2, 3, 4, 100):
        ahead = [np.corrcoef(row[:-step], row[step:])[0, 1] for row in fields]
        assert np.abs(ahead).max() < limit


@pytest.mark.parametrize("rate", [0.0, 0.07, 1.0, 9.5, 400.0])
def test_poisson_numbers_follow_the_law(rate):
    """Mean and variance are the rate; the share of each number is the law's."""
    side = 200 if rate < 100 else 60  # high rates take long
    dice = uniform_field(KEYS, (side, side), CPU)
    counts = poisson(dice, torch.tensor(rate, dtype=torch.float64), max(rate, 1.0)).double()
    n = counts.numel()

    assert abs(counts.mean() - rate) <= 5 * math.sqrt(rate / n)
    assert abs(counts.var() - rate) <= 5 * math.sqrt((rate + 2 * rate**2) / n)
    for number in (0, 1, int(rate)):
        expected = (
            math.exp(number * math.log(rate) - rate - math.lgamma(number + 1)) if rate else 1.0
        )
        if rate or number == 0:
            share = float((counts == number).double().mean())
            assert abs(share - expected) <= 5 * math.sqrt(expected / n) + 1e-12


def test_gaussian_noise_has_its_mean_and_sigma():
    """The field is normal with the mean and standard deviation that were asked for."""
    operation = GaussianNoise(0.3, 0.2)
    field = operation.field(draw(operation, (50, 60), 40), (50, 60), CPU)

    assert distance(field, normal_cumulated((field - 0.3) / 0.2)) < LIMIT
    assert distance(field, normal_cumulated((field - 0.304) / 0.2)) > LIMIT


@pytest.mark.parametrize(
    ("operation", "shape"),
    [
        (GaussNoise(), (3, 50, 60)),
        (GaussNoise(per_channel=False), (1, 50, 60)),
        (GaussNoise(noise_scale_factor=0.25), (3, 50, 60)),
        (AdditiveNoise(), (3, 1, 1)),
        (AdditiveNoise("uniform", "shared"), (1, 50, 60)),
        (MultiplicativeNoise(), (1, 1, 1)),
        (MultiplicativeNoise(per_channel=True), (3, 1, 1)),
        (MultiplicativeNoise(elementwise=True), (1, 50, 60)),
        (MultiplicativeNoise(per_channel=True, elementwise=True), (3, 50, 60)),
    ],
)
def test_a_field_has_numbers_for_what_differs(operation, shape):
    """Channels or pixels that get the same noise share one number."""
    field = operation.field(draw(operation, (50, 60), 4), (50, 60), CPU)

    assert field.shape == (4, *shape)
    assert len(field.unique()) > 0.9 * field.numel() * (1 if math.prod(shape) > 3 else 0)


def test_shot_noise_counts_each_value_of_its_own():
    """Channels and samples get different dice."""
    operation = ShotNoise()
    drawn = draw(operation, (50, 60), 3)
    dice = operation.dice(drawn, (50, 60), CPU).flatten(0, 1).flatten(1).numpy()

    assert np.abs(np.corrcoef(dice) - np.eye(9)).max() < 5 / math.sqrt(3000)


def test_salt_and_pepper_is_a_random_order():
    """Every pixel has one place, and each place is anywhere."""
    operation = SaltAndPepper()
    ranks = operation.ranks(draw(operation, (50, 60), 40), (50, 60), CPU).flatten(1)

    assert torch.equal(ranks.sort(dim=1).values, torch.arange(3000).expand(40, 3000))
    first = ranks.argmin(dim=1)
    assert len(first.unique()) > 35


@pytest.mark.parametrize("count", [0, 1, 40, 299, 300])
def test_salt_and_pepper_takes_the_first_pixels_of_the_order(count):
    """The first pixels are those of a stable sort of the numbers, also if numbers are equal."""
    operation = SaltAndPepper()
    drawn = draw(operation, (15, 20), 3)
    numbers = uniform_field(drawn["key"], (300,), CPU).numpy()
    equal = np.floor(numbers[0] * 8) / 8

    order = operation.order(drawn, (15, 20), CPU, count).numpy()
    np.testing.assert_array_equal(order, numbers.argsort(axis=1, kind="stable")[:, :count])
    expected = equal.argsort(kind="stable")[:count]
    np.testing.assert_array_equal(_smallest(equal.astype(np.float32), count), expected)
