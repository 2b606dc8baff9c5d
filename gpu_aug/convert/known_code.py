"""Recognition of functions that need no translation, by their compiled code; they are not called."""

import dis
from collections.abc import Callable
from types import CodeType
from typing import Any

# Lambda expressions have the instructions of functions with such a body.
TO_RGB: tuple[Callable[[Any], Any], ...] = (
    lambda image: image.convert("RGB"),
    lambda image: image.convert("RGB") if image.mode != "RGB" else image,
)
"""Functions that convert a Pillow image to RGB."""

IDENTITY: tuple[Callable[[Any], Any], ...] = (lambda image: image,)
"""The function that returns its first argument."""


def does_the_same(function: Any, models: tuple[Callable[[Any], Any], ...]) -> bool:
    """Return whether a function does with its first argument what one of ``models`` does, and nothing else."""
    code: CodeType | None = getattr(function, "__code__", None)
    return (
        code is not None
        and code.co_argcount > 0
        and any(_instructions(code) == _instructions(model.__code__) for model in models)
    )


def _instructions(code: CodeType) -> list[tuple[str, Any]]:
    """Return the instructions of a function, with names and constants instead of their numbers.

    From Python 3.14 on, the number of a constant depends on whether the function has a docstring.
    """
    by_value = {*dis.hasconst, *dis.hasname}
    return [
        (one.opname, one.argval if one.opcode in by_value else one.arg)
        for one in dis.get_instructions(code)
    ]
