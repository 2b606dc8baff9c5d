"""Helpers that the converters of all libraries share, for containers such as Compose and OneOf, fills and rounding to 8 bits."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_aug.convert.registry import Refused
from gpu_aug.errors import RecipeError
from gpu_aug.ops.color.normalize import ToDtype
from gpu_aug.ops.combine import OneOf, RandomApply
from gpu_aug.ops.geometric.flips import Identity
from gpu_aug.ops.operation import Operation


def as_one(operations: list[Operation]) -> Operation:
    """Return one operation that applies all of the given ones, in order."""
    if not operations:
        return Identity()
    return operations[0] if len(operations) == 1 else RandomApply(operations, 1.0)


def sometimes(operations: list[Operation], p: float) -> list[Operation]:
    """Return operations that apply all of the given ones with probability ``p``."""
    if not operations or p == 0:
        return []
    return operations if p == 1 else [RandomApply(operations, p)]


def choice(
    children: list[list[Operation]], weights: Sequence[float], p: float = 1.0
) -> list[Operation]:
    """Return operations that apply one of the children with probability ``p``, drawn by weight.

    Children that do nothing are left out, and their share of the probability is applied to no operation.
    """
    kept = [(as_one(c), w) for c, w in zip(children, weights, strict=True) if c and w]
    if not kept:
        return []
    operations, left = [operation for operation, _ in kept], [weight for _, weight in kept]
    share = p if len(kept) == len(weights) else p * sum(left) / sum(weights)
    if len(kept) == 1 or share == 0:
        return sometimes(operations, share)
    return [OneOf(operations, weights=left, p=share)]


def times_255(value: Any) -> Any:
    """Return numbers in [0, 1], single or in containers, in the units of uint8 images."""
    if isinstance(value, dict):
        return {key: times_255(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(times_255(item) for item in value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value * 255 if is_number else value


def unit_fill(value: Any) -> Any:
    """Return a fill in the units of uint8 images, one number or several, scaled to [0, 1]; None becomes 0."""
    if value is None:
        return 0.0
    if not isinstance(value, list | tuple):
        return float(value) / 255
    if len(value) not in (1, 3):
        raise Refused(f"fill {value!r} has not one value or three", "fill=0")
    return unit_fill(value[0]) if len(value) == 1 else tuple(float(item) / 255 for item in value)


def within_8_bits(operation: Operation) -> list[Operation]:
    """Return operations that do what ``operation`` does on 8-bit images.

    After bicubic resampling a rounding to 8 bits follows, because the kernel has negative weights and values next to an
    edge leave [0, 1].
    """
    overshoots = any(
        getattr(leaf, "interpolation", None) == "bicubic"
        and not (leaf.leaves_unit_range or leaf.rounds_to_8_bits)
        for leaf in operation.leaves
    )
    if not overshoots:
        return [operation]
    if isinstance(operation, RandomApply):
        return [RandomApply([*operation.operations, ToDtype("uint8")], operation.p)]
    return [operation, ToDtype("uint8")]


def rounded_once(operations: list[Operation]) -> list[Operation]:
    """Return the operations without the second of two consecutive roundings to 8 bits."""
    rounding = ToDtype("uint8")
    return [
        operation
        for number, operation in enumerate(operations)
        if number == 0 or not operation == operations[number - 1] == rounding
    ]


def probe(run: Callable[[NDArray[Any], dict[str, NDArray[Any]], int], object], takes: str) -> None:
    """Run a transform of another library a few times, so that it fails now and not during training.

    Raises:
        RecipeError: The transform fails, or changes the image's size.
    """
    image: NDArray[Any] = np.random.default_rng(0).integers(0, 256, (256, 320, 3), dtype=np.uint8)
    if takes == "float32":
        image = image.astype(np.float32) / 255
    for seed in range(4):
        try:
            run(image, {"seed": np.array([seed])}, 0)
        except Exception as error:
            raise RecipeError(f"it fails on an image: {' '.join(str(error).split())}") from error
