"""Engines and functions for RGB images, applied to images of any number of channels, three channels at a time.

This is exact for operations that treat all channels alike.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gpu_aug.draws import Draws
from gpu_aug.engines.engine import Engine, Images
from gpu_aug.ops.color.normalize import Normalize
from gpu_aug.ops.operation import Operation
from gpu_aug.recipe import Recipe

Function = Callable[..., NDArray[Any]]


class EngineByChannelTriplets:
    """An engine for images of any number of channels that runs an RGB engine on three channels at a time; see Engine.

    Args:
        make: Function that makes the RGB engine for a recipe.
        recipe: The recipe; its operations must treat all channels alike.
        channels: Number of channels of an image.
    """

    def __init__(self, make: Callable[[Recipe], Engine], recipe: Recipe, channels: int) -> None:
        made: dict[str, Engine] = {}
        self._parts: list[tuple[list[int], int, Engine]] = []
        for numbers, count in channel_triplets(channels):
            own = _of_channels(recipe, numbers, channels)
            engine = made.setdefault(own.fingerprint, made.get(own.fingerprint) or make(own))
            self._parts.append((numbers, count, engine))
        self.name = self._parts[0][2].name

    def run(self, images: Images, draws: Draws, out: torch.Tensor) -> None:
        """Carry out the batch stage; see Engine.run."""
        for numbers, count, engine in self._parts:
            target = out[:, numbers[0] : numbers[0] + 3]
            whole = target if count == 3 else out.new_empty(len(out), 3, *out.shape[2:])
            engine.run(_taken(images, numbers), draws, whole)
            if count < 3:
                target.copy_(whole[:, :count])


def channel_triplets(channels: int) -> list[tuple[list[int], int]]:
    """Return how an image of ``channels`` channels is split into parts of three.

    Returns:
        For each part, the indices of its three channels and how many of them no earlier part has. The last part repeats the
        last channel if the number of channels is no multiple of three.
    """
    starts = range(0, channels, 3)
    return [
        ([min(start + number, channels - 1) for number in range(3)], min(channels - start, 3))
        for start in starts
    ]


def by_channel_triplets(function: Function) -> Function:
    """Return a function on images of any number of channels that calls ``function`` on three channels at a time."""

    def apply(image: NDArray[Any], *args: Any) -> NDArray[Any]:
        if image.shape[2] == 3:
            return function(image, *args)
        parts = [
            function(np.ascontiguousarray(image[..., numbers]), *args)[..., :count]
            for numbers, count in channel_triplets(image.shape[2])
        ]
        return np.concatenate(parts, axis=2)

    return apply


def of_three_channels(recipe: Recipe) -> Recipe:
    """Return the recipe for the first three channels of the images that ``recipe`` is for."""
    counts = [len(leaf.mean) for leaf in recipe.leaves if isinstance(leaf, Normalize)]
    channels = next((count for count in counts if count != 3), 3)
    return _of_channels(recipe, channel_triplets(channels)[0][0], channels)


def _taken(images: Images, numbers: list[int]) -> Images:
    if isinstance(images, torch.Tensor):
        return images[..., numbers].contiguous()
    return [image[..., numbers].contiguous() for image in images]


def _of_channels(recipe: Recipe, numbers: list[int], channels: int) -> Recipe:
    """Return the recipe for three of the channels: each Normalize keeps their means and deviations only."""
    normalized = [leaf for leaf in recipe.leaves if isinstance(leaf, Normalize)]
    if channels == 3 or not any(len(leaf.mean) == channels for leaf in normalized):
        return recipe
    operations = [_narrowed(operation, numbers, channels) for operation in recipe.operations]
    return Recipe(operations, **recipe.target_params)


def _narrowed(operation: Operation, numbers: list[int], channels: int) -> Operation:
    if isinstance(operation, Normalize):
        if len(operation.mean) != channels:
            return operation
        mean, std = (
            tuple(values[number] for number in numbers)
            for values in (operation.mean, operation.std)
        )
        return replace(operation, mean=mean, std=std)
    changed: dict[str, Any] = {}
    for field in fields(operation):
        value = getattr(operation, field.name)
        if isinstance(value, Operation):
            changed[field.name] = _narrowed(value, numbers, channels)
        elif isinstance(value, Sequence) and any(isinstance(one, Operation) for one in value):
            changed[field.name] = tuple(_narrowed(one, numbers, channels) for one in value)
    return replace(operation, **changed) if changed else operation
