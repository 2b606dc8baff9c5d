"""Check single values: numbers, booleans and choices. Each error names the value and the allowed values.

`Options.check` of dali_pipes.arguments.loader_options uses them for the arguments of a Loader.
"""

import math

import numpy as np

from dali_pipes.errors import LoaderError
from dali_pipes.steps.schedule import MAX_EPOCH


def refuse(*faults: tuple[bool, str]) -> None:
    """Raise a LoaderError for the first fault that applies.

    Args:
        faults: Pairs: whether the fault applies, and the message.

    Raises:
        LoaderError: A fault applies; the text is the message of the first such fault.
    """
    for is_there, text in faults:
        if is_there:
            raise LoaderError(text)


def require_integers(lowest: int, largest: int | None = None, /, **values: int) -> None:
    """Raise unless all values are integers from `lowest` to `largest` (without a limit if None)."""
    allowed = f"of {lowest} or more" if largest is None else f"from {lowest} to {largest}"
    for name, value in values.items():
        is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not is_integer or value < lowest or (largest is not None and value > largest):
            raise LoaderError(f"{name}={value!r} is not allowed; give an integer {allowed}")


def require_positive(**values: int) -> None:
    """Raise unless all values are integers of 1 or more."""
    require_integers(1, **values)


def require_epoch(epoch: int) -> None:
    """Raise unless the value is a valid epoch number."""
    require_integers(0, MAX_EPOCH, epoch=epoch)


def require_above_zero(**values: float) -> None:
    """Raise unless all values are finite numbers above 0."""
    for name, value in values.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (is_number and 0 < value < math.inf):
            raise LoaderError(f"{name}={value!r} is not allowed; give a number above 0")


def require_share(**values: float) -> None:
    """Raise unless all values are numbers from 0 to 1."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise LoaderError(f"{name}={value!r} is not allowed; give a number from 0 to 1")


def require_truths(**values: bool) -> None:
    """Raise unless all values are True or False: the string "no" would count as true."""
    for name, value in values.items():
        if not isinstance(value, bool | np.bool_):
            raise LoaderError(f"{name}={value!r} is not allowed; give True or False")


def require_one_of(name: str, value: object, allowed: tuple[str | None, ...]) -> None:
    """Raise unless a value is one of the allowed choices."""
    if value not in allowed:
        names = ", ".join(str(choice) if choice is None else f'"{choice}"' for choice in allowed)
        raise LoaderError(f"{name}={value!r} is not known; allowed are {names}")
