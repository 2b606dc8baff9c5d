"""Checks of single values: numbers, booleans and choices. Each error names the value and what is allowed.

`Options.check` of dali_pipes.arguments.setup checks the arguments of a Loader with these and other functions.
"""

import numpy as np

from dali_pipes.errors import LoaderError
from dali_pipes.steps.schedule import MAX_EPOCH


def require_positive(**values: int) -> None:
    """Refuse anything but integers of 1 or more."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise LoaderError(f"{name}={value!r} is not allowed; give an integer of 1 or more")


def require_not_negative(**values: int) -> None:
    """Refuse anything but integers of 0 or more."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
            # A tensor or array of one number has __index__ and needs a conversion only.
            as_int = f", as int({name})" if hasattr(value, "__index__") and not value < 0 else ""
            raise LoaderError(
                f"{name}={value!r} is not allowed; give an integer of 0 or more{as_int}"
            )


def require_share(**values: float) -> None:
    """Refuse anything but numbers from 0 to 1."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise LoaderError(f"{name}={value!r} is not allowed; give a number from 0 to 1")


def require_truths(**values: bool) -> None:
    """Refuse anything but True and False: the text "no" would count as true."""
    for name, value in values.items():
        if not isinstance(value, bool | np.bool_):
            raise LoaderError(f"{name}={value!r} is not allowed; give True or False")


def require_one_of(name: str, value: object, allowed: tuple[str | None, ...]) -> None:
    """Refuse a value that is not one of the allowed choices."""
    if value not in allowed:
        names = ", ".join(str(choice) if choice is None else f'"{choice}"' for choice in allowed)
        raise LoaderError(f"{name}={value!r} is not known; allowed are {names}")


def require_epoch(epoch: int) -> None:
    """Refuse anything but the number of an epoch."""
    is_integer = isinstance(epoch, int | np.integer) and not isinstance(epoch, bool)
    if not is_integer or not 0 <= epoch <= MAX_EPOCH:
        raise LoaderError(f"{epoch=} is not allowed; give an integer from 0 to {MAX_EPOCH}")
