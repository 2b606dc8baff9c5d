"""Describe values in a few words for error messages: the type and size of a value, or the first names of a list."""

import os
import re
from collections.abc import Iterable
from itertools import islice
from typing import Any

_MAX_SHOWN = 60
# As Pillow writes a file in memory: <_io.BytesIO object at 0x7f0a>
_OBJECT = re.compile(r" ?<[^<>]* at 0x[0-9a-fA-F]+>")


def without_addresses(text: str) -> str:
    """Return an error's text without objects that are named by their address, which differs between runs."""
    return _OBJECT.sub("", text)


def describe(value: Any) -> str:
    """Return a description of a value for error messages: its type with its shape or length.

    Numbers and short paths are shown in full, such as "the int 3".

    Args:
        value: Any object. Arrays and tensors of all libraries are described by dtype and shape.
    """
    name = type(value).__name__
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if dtype is not None and shape is not None and not isinstance(value, type):
        return f"{name} of {str(dtype).removeprefix('torch.')} {[int(side) for side in shape]}"
    if value is None or isinstance(value, bool | int | float):
        if isinstance(value, int) and abs(value) >= 10**18:
            return f"an {name} of {value.bit_length()} bits"
        return "None" if value is None else f"the {name} {value!r}"
    if isinstance(value, str | os.PathLike):
        text = repr(os.fspath(value))
        return (
            f"the path {text}"
            if len(text) <= _MAX_SHOWN
            else f"a {name} of {len(text) - 2} letters"
        )
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{name} of {len(value)} bytes"
    if isinstance(value, tuple) and 1 <= len(value) <= 3:
        return f"tuple of {', '.join(describe(one) for one in value)}"
    try:
        return f"{name} of {len(value)} entries"
    except Exception:  # noqa: BLE001 - whatever a foreign class does when it is asked
        return f"an object of the type {name}"


def few_of(names: Iterable[object], most: int = 5) -> str:
    """Return the first names of a list as text, ``cat, dog, ...``; "" for an empty list.

    Args:
        names: The names; at most `most` + 1 of them are consumed.
        most: Number of names to show; if there are more, dots follow.
    """
    shown = list(map(str, islice(names, most + 1)))
    return ", ".join([*shown[:most], *(["..."] if shown[most:] else [])])
