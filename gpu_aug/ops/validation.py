"""Checks that convert a user's value of a field to its canonical form.

Each takes the operation's name and the field's, for the error, and returns plain tuples of
plain numbers, so that equal recipes have equal fingerprints.
"""

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

from gpu_aug.errors import RecipeError


def fault(operation: str, field: str, got: object, allowed: str) -> RecipeError:
    """Return the error for a value that is not allowed; ``allowed`` ends with an example."""
    return RecipeError(f"{operation} {field} must be {allowed}, got {got!r}")


def height_width(operation: str, field: str, value: Any) -> tuple[int, int]:
    """Return (height, width) for one whole number (a square) or a pair of them."""
    values = [value, value] if is_whole(value) else value
    if not is_sequence(values, 2) or not all(is_whole(side) and side > 0 for side in values):
        raise fault(
            operation, field, value, "one or two whole numbers of at least 1, for example 224"
        )
    return int(values[0]), int(values[1])


def probability(operation: str, value: Any) -> float:
    """Return a probability as a float in [0, 1]."""
    if not is_number(value) or not 0 <= value <= 1:
        raise fault(operation, "p", value, "a probability from 0 to 1, for example 0.5")
    return _plain(value)


def number(operation: str, field: str, value: Any) -> float:
    """Return a finite number as a float."""
    if not is_number(value):
        raise fault(operation, field, value, "a finite number, for example 0.0")
    return _plain(value)


def numbers(
    operation: str, field: str, value: Any, *, count: int, example: str
) -> tuple[float, ...]:
    """Return ``count`` finite numbers as a tuple of floats."""
    if not is_sequence(value, count) or not all(is_number(item) for item in value):
        raise fault(operation, field, value, f"{count} finite numbers, for example {example}")
    return tuple(_plain(item) for item in value)


def interval(
    operation: str,
    field: str,
    value: Any,
    *,
    low: float,
    high: float = math.inf,
    above: bool = False,
    around: float | None = None,
    example: str,
) -> tuple[float, float]:
    """Return (smallest, largest) with low <= smallest <= largest <= high.

    ``above`` asks for low < smallest. With ``around``, one number x means around - x (but not
    below ``low``) to around + x. ``example`` is a good value, for the error.
    """
    ends = value
    if around is not None and is_number(value):
        ends = (max(low, around - value), around + value)
    if is_sequence(ends, 2) and all(is_number(end) for end in ends):
        smallest, largest = _plain(ends[0]), _plain(ends[1])
        if low <= smallest <= largest <= high and not (above and smallest == low):
            return smallest, largest
    bounds = f"{'above' if above else 'from'} {low:g}" + (
        "" if high == math.inf else f" to {high:g}"
    )
    raise fault(
        operation, field, value, f"(smallest, largest) {bounds}, in that order, such as {example}"
    )


def choice(operation: str, field: str, value: Any, allowed: Sequence[str]) -> str:
    """Return one of the words that are allowed."""
    if not isinstance(value, str) or value not in allowed:
        raise fault(operation, field, value, f"one of {', '.join(map(repr, allowed))}")
    return value


def fill(operation: str, field: str, value: Any) -> float | tuple[float, float, float]:
    """Return one finite number, or three that are not all equal."""
    if is_number(value):
        return _plain(value)
    if not is_sequence(value, 3) or not all(is_number(item) for item in value):
        raise fault(
            operation, field, value, "a finite number, or three for the channels, for example 0.0"
        )
    red, green, blue = (_plain(item) for item in value)
    return red if red == green == blue else (red, green, blue)


def whole(operation: str, field: str, value: Any, *, low: int, example: str) -> int:
    """Return a whole number of at least ``low``."""
    if not is_whole(value) or value < low:
        raise fault(
            operation, field, value, f"a whole number of at least {low}, for example {example}"
        )
    return int(value)


def whole_interval(
    operation: str, field: str, value: Any, *, low: int, example: str
) -> tuple[int, int]:
    """Return (smallest, largest) of whole numbers from ``low``; one number is both."""
    ends = (value, value) if is_whole(value) else value
    if (
        not is_sequence(ends, 2)
        or not all(is_whole(end) for end in ends)
        or not low <= ends[0] <= ends[1]
    ):
        raise fault(
            operation,
            field,
            value,
            f"(smallest, largest) whole numbers from {low}, in that order, such as {example}",
        )
    return int(ends[0]), int(ends[1])


def is_number(value: object) -> bool:
    """Whether ``value`` is a finite real number."""
    return not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)


def is_whole(value: object) -> bool:
    """Whether ``value`` is a whole number by type."""
    return not isinstance(value, bool) and isinstance(value, Integral)


def is_sequence(value: object, length: int) -> bool:
    """Whether ``value`` is a sequence of this length, and not text."""
    return isinstance(value, Sequence) and not isinstance(value, str) and len(value) == length


def _plain(value: Any) -> float:
    return float(value) + 0.0  # -0.0 becomes 0.0


def one_or_two(
    operation: str,
    field: str,
    value: float | tuple[float, float],
    *,
    low: float,
    high: float = math.inf,
    above: bool = False,
    example: str,
) -> tuple[float, float]:
    """Return (smallest, largest); one number is both."""
    ends = (value, value) if is_number(value) else value
    return interval(operation, field, ends, low=low, high=high, above=above, example=example)
