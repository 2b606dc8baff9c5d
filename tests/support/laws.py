"""What the tests of draws share: two samples are compared without knowing their law."""

import math
import warnings
from typing import Any

import albumentations as A
import numpy as np

from gpu_aug.convert import from_albumentations, from_torchvision
from gpu_aug.draws import uniforms
from gpu_aug.ops.operation import Operation

NUM = 2000


def draw(operation: Operation, size: tuple[int, int], num: int = NUM, seed: int = 3) -> dict:
    """What our operation draws on images of one size."""
    [u] = uniforms(seed, 0, np.arange(num), [operation.num_uniforms])
    return operation.draw(u, np.full((num, 2), size))


def apart(ours: Any, theirs: Any) -> float:
    """Kolmogorov-Smirnov distance over the one that one pair in a million of one law exceeds."""
    a, b = np.sort(np.asarray(ours, float).ravel()), np.sort(np.asarray(theirs, float).ravel())
    places = np.concatenate([a, b])
    distance = np.abs(
        np.searchsorted(a, places, side="right") / len(a)
        - np.searchsorted(b, places, side="right") / len(b)
    ).max()
    return float(
        distance / (math.sqrt(-0.5 * math.log(1e-6 / 2)) * math.sqrt(1 / len(a) + 1 / len(b)))
    )


def imported(transform: Any) -> Operation:
    """Return the operation that a transform of Albumentations or torchvision becomes, without what limits its values."""
    own = isinstance(transform, A.BasicTransform)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        operations = (from_albumentations if own else from_torchvision)(transform).operations
    return operations[0]


def albumentations_draws(
    transform: Any, size: tuple[int, int], num: int = NUM, image: Any = None
) -> list[dict]:
    """Return what a class of Albumentations draws on an image, or on black images of one size."""
    data = {"image": np.zeros((*size, 3), np.uint8) if image is None else image}
    transform.set_random_seed(1)
    drawn = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(num):
            params = transform.update_transform_params(transform.get_params(), data)
            drawn.append(params | transform.get_params_dependent_on_data(params, data))
    return drawn
