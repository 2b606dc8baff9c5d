"""Random columns: how each drawn parameter of an operation is made from uniform random numbers."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_aug.ops.distributions.uniform import Uniforms, between, whole_between
from gpu_aug.random_fields import keys

__all__ = ["Column", "Drawn", "Integer", "Key", "Law", "Numbers", "Random", "Uniform"]

Count = int | Callable[[Any], int]
"""Number of uniform numbers per sample, or a function of the operation that returns it."""


class Column(ABC):
    """Base of the rules that turn uniform numbers into one parameter.

    Args:
        count: Number of uniform numbers per sample; see `Count`.
    """

    def __init__(self, count: Count = 1) -> None:
        self._count = count

    def count(self, operation: Any) -> int:
        """Return the number of uniform numbers that each sample needs."""
        return self._count if isinstance(self._count, int) else self._count(operation)

    def take(self, operation: Any, name: str, u: Uniforms) -> NDArray[Any]:
        """Return the values of the parameter `name`, made from uniform numbers, float64 [B, count] in [0, 1)."""
        return self.values(operation, name, u[:, 0] if self._count == 1 else u)

    @abstractmethod
    def values(self, operation: Any, name: str, u: Uniforms) -> NDArray[Any]:
        """Return the parameter `name`, made from uniform numbers: float64 [B], or [B, count] if the count is not 1."""


class Numbers(Column):
    """Pass uniform numbers unchanged to `Operation.parameters`: float64 [B], or [B, count] if `count` is not 1."""

    def values(self, operation: Any, name: str, u: Uniforms) -> NDArray[Any]:
        return u


class Key(Column):
    """Draw a key, uint32 [B, 2], from which the device generates random numbers."""

    def __init__(self) -> None:
        super().__init__(2)

    def values(self, operation: Any, name: str, u: Uniforms) -> NDArray[Any]:
        return keys(u)


class Law(Column):
    """Apply a function to uniform numbers and to the value of a field.

    Args:
        function: Function of uniform numbers, float64 [B] or [B, count] if `count` is not 1, and of the field's value.
        field: Name of the field; by default the name of the parameter.
        count: Number of uniform numbers per sample; see `Count`.
    """

    def __init__(
        self, function: Callable[[Uniforms, Any], NDArray[Any]], field: str = "", count: Count = 1
    ) -> None:
        super().__init__(count)
        self._function, self._field = function, field

    def values(self, operation: Any, name: str, u: Uniforms) -> NDArray[Any]:
        return self._function(u, getattr(operation, self._field or name))


class Uniform(Law):
    """Draw uniformly from the range (smallest, largest) that a field holds: float64 [B], or [B, count] if `count` is not 1.

    Args:
        field: Name of the field; by default the name of the parameter.
        count: Number of uniform numbers per sample; see `Count`.
        at_least: Smallest result; smaller numbers are raised to it, so that nothing is divided by 0. None sets no limit.
    """

    def __init__(self, field: str = "", count: Count = 1, at_least: float | None = None) -> None:
        super().__init__(between, field, count)
        self._at_least = at_least

    def values(self, operation: Any, name: str, u: Uniforms) -> NDArray[Any]:
        drawn = super().values(operation, name, u)
        return drawn if self._at_least is None else np.maximum(drawn, self._at_least)


class Integer(Law):
    """Draw an integer, int64 [B], uniformly from the range (smallest, largest) that a field holds, both ends included.

    Args:
        field: Name of the field; by default the name of the parameter.
    """

    def __init__(self, field: str = "") -> None:
        super().__init__(whole_between, field)


Random = Mapping[str, Column]
"""Name of a parameter -> its column, in the order of the uniform numbers."""

Drawn = dict[str, NDArray[Any]]
"""Name of a column -> its values; the first axis is the batch."""
