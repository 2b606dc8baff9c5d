"""Operations that pipelines of other libraries need beside the usual ones."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np

from gpu_aug.draws import Params
from gpu_aug.ops import fields
from gpu_aug.ops.combine import Combinator, Gates, checked
from gpu_aug.ops.geometric.spatial import Reorient
from gpu_aug.ops.laws.uniform import Sizes, Uniforms, whole_below
from gpu_aug.ops.operation import Operation

__all__ = ["Identity", "SomeOfRepeated"]


@dataclass(frozen=True)
class Identity(Reorient):
    """Nothing: a choice in OneOf or SomeOf that leaves the image as it is.

    Source: torchvision v2 Identity; Albumentations NoOp.

    Example:
        >>> recipe = Recipe([RandomResizedCrop(224), OneOf([Identity(), Grayscale(1.0)])])
    """

    tolerance: ClassVar[float] = 0.0

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - any size
        """Close every gate."""
        names = ("apply", "transpose", "top_bottom", "left_right")
        return {name: np.zeros(len(u), bool) for name in names}


@dataclass(frozen=True)
class SomeOfRepeated(Combinator):
    """``n`` operations, drawn with replacement, in the given order, with probability ``p``.

    An operation that is drawn k times is done k times in a row, with its own draws each time.

    Args:
        operations: Operations to choose from, equally often. Each keeps its own probability, if it has one.
        n: How many, from 1.
        p: Share of the images for which some are chosen.

    Source: Albumentations SomeOf with replace=True.
    """

    operations: Sequence[Operation]
    n: int = 1
    _: KW_ONLY
    p: float = 1.0

    def __post_init__(self) -> None:
        name = "SomeOfRepeated"
        if not fields.is_whole(self.n) or self.n < 1:
            raise fields.fault(name, "n", self.n, "a whole number from 1, such as 2")
        self._set(
            operations=checked(name, self.operations),
            n=int(self.n),
            p=fields.probability(name, self.p),
        )

    @property
    def children(self) -> tuple[Operation, ...]:
        """Each operation n times."""
        return tuple(child for child in self.operations for _ in range(self.n))

    @property
    def num_uniforms(self) -> int:
        """The gate, and one for each of the n."""
        return 1 + self.n

    def choose(self, u: Uniforms) -> Gates:
        """As often as it was drawn, of each operation."""
        drawn = whole_below(u[:, 1:], len(self.operations))
        counts = (drawn[:, :, None] == np.arange(len(self.operations))).sum(axis=1)
        chosen = counts[:, :, None] > np.arange(self.n)
        gates: Gates = chosen.reshape(len(u), -1) & (u[:, :1] < self.p)
        return gates
