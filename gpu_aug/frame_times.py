"""The drawn speed of clips, and the drawn order of their frames."""

import numpy as np
from numpy.typing import NDArray

from gpu_aug.draws import Draws
from gpu_aug.ops.temporal import SPEED_UNIT, SpeedJitter
from gpu_aug.recipe import Recipe


def drawn_speed(recipe: Recipe, draws: Draws) -> NDArray[np.int64]:
    """Return the drawn speed of each clip: the factor of the time between its frames.

    Args:
        recipe: The recipe.
        draws: Draws of B clips.

    Returns:
        Speeds in units of 1 / SPEED_UNIT, int64 [B], at least 1. Without a SpeedJitter all are SPEED_UNIT.
    """
    speed = np.full(len(draws), SPEED_UNIT)
    for operation, params in zip(recipe.temporal_operations, draws.temporal, strict=True):
        if isinstance(operation, SpeedJitter):
            speed = np.maximum(speed * params["speed"] // SPEED_UNIT, 1)
    return speed


def frame_order(recipe: Recipe, draws: Draws, num_frames: int) -> NDArray[np.int64]:
    """Return the order of the chosen frames of each clip.

    Args:
        recipe: The recipe.
        draws: Draws of B clips.
        num_frames: Number of frames of a clip.

    Returns:
        Indices of the chosen frames, int64 [B, num_frames]; an index may be missing or repeated.
    """
    order = np.tile(np.arange(num_frames), (len(draws), 1))
    for operation, params in zip(recipe.temporal_operations, draws.temporal, strict=True):
        order = np.take_along_axis(order, operation.order(params, num_frames), axis=1)
    return order


def decoded_order(recipe: Recipe, draws: Draws, num_frames: int) -> NDArray[np.int64]:
    """Return the order of the frames of clips that are already decoded; see `frame_order` and SpeedJitter."""
    reached = np.arange(num_frames) * drawn_speed(recipe, draws)[:, None] // SPEED_UNIT
    order = frame_order(recipe, draws, num_frames)
    return np.take_along_axis(np.minimum(reached, num_frames - 1), order, axis=1)
