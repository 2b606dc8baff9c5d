"""Combinators: operations that choose and order other operations for each image."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import chain
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpu_aug.draws import Params
from gpu_aug.errors import RecipeError
from gpu_aug.ops import validation
from gpu_aug.ops.distributions.columns import Drawn, Numbers, Random
from gpu_aug.ops.distributions.uniform import (
    Sizes,
    Uniforms,
    orders,
    pick,
    whole_below,
    whole_between,
)
from gpu_aug.ops.foreign.wrapping import as_operation
from gpu_aug.ops.operation import Operation, sizes_after

__all__ = ["Combinator", "OneOf", "RandomApply", "RandomOrder", "SomeOf", "SomeOfRepeated"]

Gates = NDArray[np.bool_]
"""bool [B, n]: which image gets which of the n children."""


def checked(name: str, _field: str, operations: Any) -> tuple[Operation, ...]:
    """Return the operations of a combinator as a tuple.

    Raises:
        RecipeError: The list is empty, or holds something that cannot be a step of a recipe.
    """
    if not isinstance(operations, Sequence) or isinstance(operations, str) or not operations:
        raise RecipeError(
            f"{name} operations must be a list of at least one operation, got {operations!r}"
        )
    return tuple(
        as_operation(operation, f"operation {number} of {name}")
        for number, operation in enumerate(operations)
    )


Operations = Annotated[Sequence[Operation], checked]


def _one_each(operation: Any) -> int:
    """Return the number of operations that a combinator combines: one uniform number is drawn for each."""
    return len(operation.operations)


class Combinator(Operation, abstract=True):
    """Base of operations that are made of others, called children and carried out in order."""

    operations: Sequence[Operation]

    @property
    def children(self) -> tuple[Operation, ...]:
        """The combined operations in order; one that may run at several places of the order is listed once for each place."""
        return tuple(self.operations)

    @abstractmethod
    def choose(self, gate: NDArray[np.bool_], drawn: Drawn) -> Gates:
        """Return which image gets which child, bool [B, number of children].

        Args:
            gate: Whether an image is changed at all, bool [B].
            drawn: Values of the columns of ``random``.
        """

    @property
    def leaves(self) -> tuple[Operation, ...]:
        """The leaves of all children, in order."""
        return tuple(chain.from_iterable(child.leaves for child in self.children))

    @property
    def slots(self) -> tuple[int, ...]:
        """Number of uniform numbers of each slot: first the slot of the choice, then the slots of the children."""
        return (self.num_uniforms, *chain.from_iterable(child.slots for child in self.children))

    @property
    def slots_by_group(self) -> tuple[bool, ...]:
        """Which of ``slots`` are drawn once for all images that are mixed with each other.

        If a child mixes images, the choice is among them, because partners must read each other's input.
        """
        mixes = any(leaf.group > 1 for leaf in self.leaves)
        inner = chain.from_iterable(child.slots_by_group for child in self.children)
        return (mixes, *inner)

    def draw_leaves(self, numbers: Iterator[Uniforms], sizes: Sizes) -> tuple[list[Params], Sizes]:
        """Return the parameters of the leaves of all children, and the sizes of the images after them.

        The gates of children that were not chosen are closed.
        """
        gates = self.choose(*self.draw_columns(next(numbers)))
        drawn: list[Params] = []
        for child, gate in zip(self.children, gates.T, strict=True):
            params, after = child.draw_leaves(numbers, sizes)
            drawn += [leaf | {"apply": leaf["apply"] & gate} for leaf in params]
            sizes = np.where(gate[:, None], after, sizes)
        return drawn, sizes

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Return every size that images of ``sizes`` can have after some choice of the children."""
        for child in self.children:
            sizes = np.unique(np.concatenate([sizes, sizes_after(child, sizes)]), axis=0)
        return sizes


@dataclass(frozen=True)
class RandomApply(Combinator):
    """Carry out all of the operations, in order, with probability ``p``; otherwise none.

    Source: torchvision v2 RandomApply.
    """

    operations: Operations
    p: float = 0.5

    def choose(self, gate: NDArray[np.bool_], drawn: Drawn) -> Gates:
        return np.repeat(gate[:, None], len(self.operations), axis=1)

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Return the sizes after all operations, and ``sizes`` themselves unless ``p`` is 1."""
        after = sizes
        for child in self.children:
            after = sizes_after(child, after)
        return after if self.p == 1 else np.unique(np.concatenate([sizes, after]), axis=0)


@dataclass(frozen=True)
class OneOf(Combinator):
    """Carry out one of the operations, with probability ``p``; otherwise none.

    Args:
        operations: Operations to choose from. Each keeps its own probability, if it has one.
        weights: Relative probability of each operation; None means equal probabilities.
        p: Share of the images for which one is chosen.

    Source: torchvision v2 RandomChoice, per image; Albumentations OneOf, which always
    carries out the chosen operation and uses the ``p`` of the operations as weights.

    Example:
        >>> choice = OneOf([Grayscale(1.0), Solarize(0.5, p=1.0), GaussianBlur(13, p=1.0)])
        >>> Recipe([RandomResizedCrop(224), choice, Normalize()]).size
        (224, 224)
    """

    random: ClassVar[Random] = {"choice": Numbers()}

    operations: Operations
    _: KW_ONLY
    weights: Sequence[float] | None = None
    p: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weights is None:
            return
        weights = validation.numbers(
            "OneOf", "weights", self.weights, count=len(self.operations), example="(0.7, 0.3)"
        )
        if min(weights) < 0 or sum(weights) <= 0:
            raise validation.fault(
                "OneOf", "weights", self.weights, "numbers from 0, not all 0, such as (0.7, 0.3)"
            )
        self._set(weights=None if len(set(weights)) == 1 else weights)

    def choose(self, gate: NDArray[np.bool_], drawn: Drawn) -> Gates:
        """Return gates that choose one child for each image whose gate is open, bool [B, n]."""
        weights = np.array(self.weights or [1.0] * len(self.operations))
        chosen = pick(drawn["choice"], weights / weights.sum())
        gates: Gates = gate[:, None] & (chosen[:, None] == np.arange(len(weights)))
        return gates

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Return the sizes after each of the operations, and ``sizes`` themselves unless ``p`` is 1."""
        after = [sizes_after(child, sizes) for child in self.children]
        return np.unique(np.concatenate(after if self.p == 1 else [*after, sizes]), axis=0)


@dataclass(frozen=True)
class SomeOf(Combinator):
    """Carry out several different operations, in the given order, with probability ``p``.

    Args:
        operations: Operations to choose from. Each keeps its own probability, if it has one.
        n: Number of operations that are chosen, or its (smallest, largest) value, both included.
        p: Share of the images for which operations are chosen.

    Source: Albumentations SomeOf with replace=False.
    """

    random: ClassVar[Random] = {"number": Numbers(), "rank": Numbers(_one_each)}

    operations: Operations
    n: int | tuple[int, int] = 1
    _: KW_ONLY
    p: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(n=how_many("SomeOf", self.n, len(self.operations)))

    def choose(self, gate: NDArray[np.bool_], drawn: Drawn) -> Gates:
        """Return gates that choose n random children for each image whose gate is open, bool [B, number of children]."""
        rank = orders(orders(drawn["rank"]).astype(np.float64))
        gates: Gates = gate[:, None] & (rank < draw_number(drawn["number"], self.n)[:, None])
        return gates


@dataclass(frozen=True)
class SomeOfRepeated(Combinator):
    """Carry out ``n`` operations, drawn with replacement, in the given order, with probability ``p``.

    An operation that is drawn k times is carried out k times in a row, with its own draws each time.

    Args:
        operations: Operations to choose from, equally often. Each keeps its own probability, if it has one.
        n: Number of operations, at least 1.
        p: Share of the images for which operations are chosen.

    Source: Albumentations SomeOf with replace=True.
    """

    random: ClassVar[Random] = {"choices": Numbers(lambda self: self.n)}

    operations: Operations
    n: Annotated[int, validation.Integer(low=1, example="2")] = 1
    _: KW_ONLY
    p: float = 1.0

    @property
    def children(self) -> tuple[Operation, ...]:
        """Each operation ``n`` times in a row."""
        return tuple(child for child in self.operations for _ in range(self.n))

    def choose(self, gate: NDArray[np.bool_], drawn: Drawn) -> Gates:
        """Return gates, bool [B, number of children], that open each operation as often as it was drawn."""
        numbers = whole_below(drawn["choices"], len(self.operations))
        counts = (numbers[:, :, None] == np.arange(len(self.operations))).sum(axis=1)
        chosen = counts[:, :, None] > np.arange(self.n)
        gates: Gates = chosen.reshape(len(gate), -1) & gate[:, None]
        return gates


@dataclass(frozen=True)
class RandomOrder(Combinator):
    """Carry out all of the operations, or ``n`` different ones, in an order drawn per image.

    Args:
        operations: Operations to carry out. Each keeps its own probability, if it has one.
        n: Number of operations, or its (smallest, largest) value, both included; None means all.
        p: Share of the images for which operations are carried out.

    Source: torchvision v2 RandomOrder; with ``n``, Albumentations RandomOrder.
    """

    random: ClassVar[Random] = {"number": Numbers(), "rank": Numbers(_one_each)}

    operations: Operations
    _: KW_ONLY
    n: int | tuple[int, int] | None = None
    p: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        count = len(self.operations)
        n = None if self.n is None else how_many("RandomOrder", self.n, count)
        self._set(n=None if n == count else n)

    @property
    def children(self) -> tuple[Operation, ...]:
        """All operations, repeated once for each place in the order."""
        return tuple(self.operations) * self._most

    @property
    def _most(self) -> int:
        n = self.n or len(self.operations)
        return n if isinstance(n, int) else n[1]

    def choose(self, gate: NDArray[np.bool_], drawn: Drawn) -> Gates:
        """Return gates, bool [B, number of children], that open at each place the operation that the drawn order puts there."""
        number = draw_number(drawn["number"], self.n or len(self.operations))
        order = orders(drawn["rank"])[:, : self._most]
        used = gate[:, None] & (np.arange(self._most) < number[:, None])
        chosen = order[:, :, None] == np.arange(len(self.operations))
        gates: Gates = (chosen & used[:, :, None]).reshape(len(gate), -1)
        return gates


def how_many(name: str, value: Any, most: int) -> int | tuple[int, int]:
    """Check the field ``n`` of a combinator; return the count of operations, or its (smallest, largest) value."""
    ends = (value, value) if validation.is_whole(value) else value
    if (
        not validation.is_sequence(ends, 2)
        or not all(validation.is_whole(end) for end in ends)
        or not 0 <= ends[0] <= ends[1] <= most
    ):
        raise validation.fault(
            name, "n", value, f"a whole number from 0 to {most}, or (smallest, largest), such as 1"
        )
    return int(ends[0]) if ends[0] == ends[1] else (int(ends[0]), int(ends[1]))


def draw_number(u: Uniforms, n: int | tuple[int, int]) -> Sizes:
    """Return the count of operations for each image, int64 [B], drawn from ``n``."""
    return whole_between(u, n if isinstance(n, tuple) else (n, n))
