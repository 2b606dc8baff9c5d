"""Checks that convert a user's value of a field to its canonical form.

Each check takes the names of the operation and of the field, for the error, and returns plain numbers and tuples, so that equal
recipes have equal fingerprints.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from numbers import Integral, Real
from typing import Annotated, Any, Literal, get_args, get_origin

from gpu_aug.errors import RecipeError

Check = Callable[[str, str, Any], Any]
"""Takes the names of an operation and of a field, and its value; returns the canonical form or raises."""

Checks = Mapping[str, Check]
"""Name of a field -> its check."""


def fault(operation: str, field: str, got: object, allowed: str) -> RecipeError:
    """Return the error for a value that is not allowed; ``allowed`` describes allowed values and ends with an example."""
    return RecipeError(f"{operation} {field} must be {allowed}, got {got!r}")


def height_width(operation: str, field: str, value: Any) -> tuple[int, int]:
    """Check one integer (a square) or a pair of integers; return (height, width)."""
    values = [value, value] if is_whole(value) else value
    if not is_sequence(values, 2) or not all(is_whole(side) and side > 0 for side in values):
        raise fault(
            operation, field, value, "one or two whole numbers of at least 1, for example 224"
        )
    return int(values[0]), int(values[1])


def probability(operation: str, field: str, value: Any) -> float:
    """Check a probability; return it as a float in [0, 1]."""
    if not is_number(value) or not 0 <= value <= 1:
        raise fault(operation, field, value, "a probability from 0 to 1, for example 0.5")
    return _plain(value)


def number(
    operation: str,
    field: str,
    value: Any,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    above: bool = False,
    below: bool = False,
    example: str = "",
) -> float:
    """Check a finite number; return it as a float with low <= number <= high.

    ``above`` requires low < number, ``below`` requires number < high. ``example`` is a valid value, for the error.
    """
    if not is_number(value):
        raise fault(operation, field, value, f"a finite number, for example {example or '0.0'}")
    if not low <= value <= high or (above and value == low) or (below and value == high):
        bounds = _bounds(low, high, above=above, below=below)
        raise fault(operation, field, value, f"a number {bounds}, for example {example}")
    return _plain(value)


def flag(_operation: str, _field: str, value: Any) -> bool:
    """Return ``value`` as True or False."""
    return bool(value)


def optional(check: Check) -> Check:
    """Return a check that accepts None in addition to what ``check`` accepts."""
    return lambda operation, field, value: None if value is None else check(operation, field, value)


def numbers(
    operation: str, field: str, value: Any, *, count: int, example: str
) -> tuple[float, ...]:
    """Check ``count`` finite numbers; return them as a tuple of floats."""
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
    """Check a range; return (smallest, largest) with low <= smallest <= largest <= high.

    ``above`` requires low < smallest. With ``around``, one number x stands for around - x (but not below ``low``) to around + x.
    ``example`` is a valid value, for the error.
    """
    ends = value
    if around is not None and is_number(value):
        ends = (max(low, around - value), around + value)
    if is_sequence(ends, 2) and all(is_number(end) for end in ends):
        smallest, largest = _plain(ends[0]), _plain(ends[1])
        if low <= smallest <= largest <= high and not (above and smallest == low):
            return smallest, largest
    bounds = _bounds(low, high, above=above)
    raise fault(
        operation, field, value, f"(smallest, largest) {bounds}, in that order, such as {example}"
    )


def choice(operation: str, field: str, value: Any, allowed: Sequence[str]) -> str:
    """Check that a value is one of the ``allowed`` words, and return it."""
    if not isinstance(value, str) or value not in allowed:
        listed = [*map(repr, allowed)]
        words = " or ".join(listed) if len(listed) == 2 else f"one of {', '.join(listed)}"
        raise fault(operation, field, value, words)
    return value


def fill(operation: str, field: str, value: Any) -> float | tuple[float, float, float]:
    """Check a fill; return one finite number, or three that are not all equal."""
    if is_number(value):
        return _plain(value)
    if not is_sequence(value, 3) or not all(is_number(item) for item in value):
        raise fault(
            operation, field, value, "a finite number, or three for the channels, for example 0.0"
        )
    red, green, blue = (_plain(item) for item in value)
    return red if red == green == blue else (red, green, blue)


def mask_value(operation: str, field: str, value: Any) -> int:
    """Check the fill value of masks; return it as an integer."""
    if not is_whole(value):
        raise fault(operation, field, value, "a whole number, for example 255")
    return int(value)


def whole(
    operation: str, field: str, value: Any, *, low: int, high: float = math.inf, example: str
) -> int:
    """Check an integer from ``low`` to ``high``, and return it."""
    if not is_whole(value) or not low <= value <= high:
        raise fault(
            operation, field, value, f"a whole number {_bounds(low, high)}, for example {example}"
        )
    return int(value)


def whole_interval(
    operation: str, field: str, value: Any, *, low: int, high: float = math.inf, example: str
) -> tuple[int, int]:
    """Check a range of integers from ``low`` to ``high``, or one integer for both ends; return (smallest, largest)."""
    ends = (value, value) if is_whole(value) else value
    if (
        not is_sequence(ends, 2)
        or not all(is_whole(end) for end in ends)
        or not low <= ends[0] <= ends[1] <= high
    ):
        bounds = _bounds(low, high)
        allowed = f"(smallest, largest) whole numbers {bounds}, in that order, such as {example}"
        raise fault(operation, field, value, allowed)
    return int(ends[0]), int(ends[1])


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
    """Check a range, or one number for both ends; return (smallest, largest)."""
    ends = (value, value) if is_number(value) else value
    return interval(operation, field, ends, low=low, high=high, above=above, example=example)


def take_checks(cls: type) -> Checks:
    """Return the checks that the annotations of a class declare, without those of its base classes.

    The checks are removed from the annotations, so that signatures show plain types.
    """
    checks: dict[str, Check] = {}
    hints: dict[str, Any] = cls.__annotations__
    for name, hint in hints.items():
        if get_origin(hint) is Annotated:
            checks[name] = hint.__metadata__[0]
            hints[name] = hint.__origin__
        elif get_origin(hint) is Literal:
            checks[name] = partial(choice, allowed=get_args(hint))
        elif hint is bool:
            checks[name] = flag
    return checks


# A check with its limits, for a field: size: Annotated[int, Integer(low=1, example="5")] = 3
Interval = partial(partial, interval)
Number = partial(partial, number)
OneOrTwo = partial(partial, one_or_two)
IntegerRange = partial(partial, whole_interval)
Integer = partial(partial, whole)


def is_number(value: object) -> bool:
    """Return whether ``value`` is a finite real number."""
    return not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)


def is_whole(value: object) -> bool:
    """Return whether ``value`` is of an integer type other than bool."""
    return not isinstance(value, bool) and isinstance(value, Integral)


def is_sequence(value: object, length: int) -> bool:
    """Return whether ``value`` is a sequence of this length, and not a string."""
    return isinstance(value, Sequence) and not isinstance(value, str) and len(value) == length


def _bounds(low: float, high: float, *, above: bool = False, below: bool = False) -> str:
    upper = "" if high == math.inf else f" to {'below ' * below}{high:g}"
    return f"{'above' if above else 'from'} {low:g}{upper}"


def _plain(value: Any) -> float:
    return float(value) + 0.0  # -0.0 becomes 0.0
