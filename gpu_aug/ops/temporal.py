"""Operations that choose and order the frames of clips."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpu_aug.draws import SLOTS, Params, uniforms
from gpu_aug.errors import RecipeError
from gpu_aug.ops import validation
from gpu_aug.ops.combine import Combinator
from gpu_aug.ops.distributions.columns import Drawn, Law, Numbers, Random
from gpu_aug.ops.distributions.uniform import Range, Sizes, Uniforms, whole_between
from gpu_aug.ops.operation import Operation

__all__ = ["FrameDrop", "SpeedJitter", "TemporalReverse"]

SPEED_UNIT = 1 << 16
"""Speeds are whole numbers of 1 / SPEED_UNIT, so that frames are chosen without rounding."""


class Temporal(Operation, abstract=True):
    """Base of operations that move the frames of a clip in time and leave their pixels unchanged.

    They act while frames are chosen, before decoding, so they do not depend on the engine. Their place in a recipe matters only
    relative to other operations of this kind.
    """

    @property
    def leaves(self) -> tuple[Operation, ...]:
        """Always empty, because engines have nothing to carry out."""
        return ()

    @abstractmethod
    def order(self, params: Params, num_frames: int) -> NDArray[np.int64]:
        """Return the source frame of each output frame.

        Args:
            params: Drawn parameters of B clips.
            num_frames: Number of frames of a clip.

        Returns:
            Indices of source frames, int64 [B, num_frames].
        """


@dataclass(frozen=True)
class TemporalReverse(Temporal):
    """Play the clip backwards.

    This operation exists in this project only: the converters never produce it.

    Args:
        p: Share of the clips that are reversed.

    Source: InverseOrder of vidaug, https://github.com/okankop/vidaug.
    """

    p: float = 0.5

    def order(self, params: Params, num_frames: int) -> NDArray[np.int64]:
        """Return the indices of frames, int64 [B, num_frames], in reverse order for clips whose gate is open."""
        forward = np.arange(num_frames)
        return np.where(params["apply"][:, None], forward[::-1], forward)


@dataclass(frozen=True)
class FrameDrop(Temporal):
    """Drop random frames; each is replaced by the last frame before it that was not dropped.

    The first frame is never dropped, and the clip keeps its length, as when a player freezes.

    Args:
        dropout_prob: Probability of dropping each frame of a clip, below 1.
        p: Share of the clips in which frames are dropped.

    Source: the distribution of DropRandomFrames in https://github.com/okankop/vidaug, where the clip becomes
    shorter; a picture that stays is "frame freezing" in Qi and Dai 2006, "The effect of frame freezing and
    frame skipping on video quality".
    """

    random: ClassVar[Random] = {"key": Numbers()}

    dropout_prob: Annotated[float, validation.Number(low=0, high=1, below=True, example="0.1")] = (
        0.1
    )
    p: float = 0.5

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``key``, int64 [B], which determines the frames that are dropped."""
        return {"key": (drawn["key"] * 2.0**32).astype(np.int64)}

    def order(self, params: Params, num_frames: int) -> NDArray[np.int64]:
        """Return for each frame the index of the last frame that was not dropped, int64 [B, num_frames]."""
        [numbers] = uniforms(0, 0, params["key"], [num_frames], slots=SLOTS["frames that are lost"])
        lost = (numbers < self.dropout_prob) & params["apply"][:, None]
        return np.maximum.accumulate(np.where(lost, 0, np.arange(num_frames)), axis=1)


def _draw_speed(u: Uniforms, ends: tuple[float, float]) -> Sizes:
    """Return random speeds in units of 1 / SPEED_UNIT, int64 [B]."""
    low, high = (max(round(factor * SPEED_UNIT), 1) for factor in ends)
    return whole_between(u, (low, high))


@dataclass(frozen=True)
class SpeedJitter(Temporal):
    """Play the clip faster or slower: the time between its frames is multiplied by a random factor.

    If frames are chosen from a video, the stride (or the time between frames) is multiplied, and times between two frames are
    rounded down; the clip covers more or less time, and starts where all of it fits. If the clip is already decoded
    (`gpu_aug.apply`), its own frames are used: the nearest earlier frame is taken, and the last one is repeated.

    Args:
        speed: Smallest and largest factor, above 0 and up to 1000, drawn uniformly; 2 is twice as fast.

    Source: DATA.TRAIN_JITTER_FPS of https://github.com/facebookresearch/SlowFast, which draws the
    frame rate.

    Example:
        >>> recipe = Recipe([SpeedJitter(), RandomResizedCrop(112)])
    """

    random: ClassVar[Random] = {"speed": Law(_draw_speed)}

    speed: Annotated[
        Range, validation.Interval(low=0, high=1000, above=True, example="(0.5, 2.0)")
    ] = (0.5, 2.0)

    def order(self, params: Params, num_frames: int) -> NDArray[np.int64]:
        """Return the frames in the given order, int64 [B, num_frames]: the speed acts earlier, when frames are chosen."""
        return np.tile(np.arange(num_frames), (len(params["speed"]), 1))


def check_temporal(operations: tuple[Operation, ...]) -> None:
    """Check that no combinator contains a temporal operation.

    Raises:
        RecipeError: A combinator contains one.
    """
    for operation in operations:
        inner = operation.children if isinstance(operation, Combinator) else ()
        for child in inner:
            if isinstance(child, Temporal):
                raise RecipeError(
                    f"{type(child).__name__} must be a step of the recipe itself, got it inside "
                    f"{type(operation).__name__}: frames are chosen before anything else; put it beside "
                    "the others, with a p of its own"
                )
        check_temporal(inner)
