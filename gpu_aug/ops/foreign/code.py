"""Descriptions of user code, which change whenever the behaviour of the code may change."""

import functools
import inspect
import sys
from enum import Enum
from hashlib import sha256
from typing import Any

import numpy as np

from gpu_aug.ops.foreign.source import describe_source, without_address

# Levels of objects in objects: deeper ones, such as cycles, are cut off.
_DEEPEST = 8
# Code of these packages is described by its public name, so that an upgrade does not change fingerprints.
_LIBRARIES = {"albumentations", "kornia", "numpy", "torch", "torchvision", *sys.stdlib_module_names}


def describe_code(value: Any, depth: int = 0) -> Any:
    """Return a description of what a function or an object does, as plain values ready for JSON.

    A function is described by the digest of its source (see `describe_source`), its defaults and the variables that it
    closes over;
    an object by its class and attributes; functions and classes of libraries by their public names. The description contains no
    name of a user's module and nothing that depends on the version of Python.
    """
    if depth > _DEEPEST:
        return "..."
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return ascii(value)
    if isinstance(value, np.ndarray | np.generic) or hasattr(value, "detach"):
        array = np.ascontiguousarray(
            value.detach().cpu() if hasattr(value, "detach") else np.asarray(value)
        )
        return [str(array.dtype), list(array.shape), sha256(array.tobytes()).hexdigest()]
    if isinstance(value, dict):
        return [
            [describe_code(key, depth + 1), describe_code(item, depth + 1)]
            for key, item in value.items()
        ]
    if isinstance(value, list | tuple):
        return [describe_code(item, depth + 1) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(str(describe_code(item, depth + 1)) for item in value)
    if isinstance(value, type):
        return describe_class(value)
    if isinstance(value, functools.partial):
        parts = (value.func, value.args, value.keywords)
        return ["partial", *(describe_code(part, depth + 1) for part in parts)]
    if inspect.ismethod(value):
        return [describe_code(value.__func__, depth + 1), describe_code(value.__self__, depth + 1)]
    if inspect.isfunction(value):
        return _describe_function(value, depth)
    return _describe_object(value, depth)


def describe_class(cls: type) -> Any:
    """Return the public name of a library class, or a digest of the source of any other class."""
    return _public_name(cls) if _is_library(cls.__module__) else describe_source(cls)


def _describe_function(function: Any, depth: int) -> Any:
    if _is_library(function.__globals__.get("__name__", "")):
        inner = getattr(
            function, "__wrapped__", None
        )  # by a decorator of theirs, which the source names
        return _public_name(function) if inner is None else describe_code(inner, depth + 1)
    cells = [_contents(cell) for cell in function.__closure__ or ()]
    return describe_source(function) | {
        "defaults": describe_code([function.__defaults__, function.__kwdefaults__], depth + 1),
        "closure": describe_code(cells, depth + 1),
    }


def _describe_object(value: Any, depth: int) -> Any:
    cls = type(value)
    inner = inspect.unwrap(value) if callable(value) else value
    if inspect.isfunction(inner) and inner.__module__ != cls.__module__:
        return describe_code(
            inner, depth + 1
        )  # decorated, as by functools.cache; the source contains the decorator
    described = [describe_class(cls)]
    if isinstance(value, Enum):
        return [*described, value.name]
    attributes = getattr(value, "__dict__", None)
    if attributes is None:
        return [*described, without_address(repr(value))]
    kept = {
        name: item
        for name, item in attributes.items()
        if not (name.startswith("_") and _is_library(cls.__module__) and _is_empty(item))
    }
    return [*described, describe_code(kept, depth + 1)]


def _is_empty(value: Any) -> bool:
    return value is None or (
        isinstance(value, bool | int | dict | list | tuple | set) and not value
    )


def _is_library(module: str) -> bool:
    return module.partition(".")[0] in _LIBRARIES


def _public_name(code: Any) -> str:
    """Return the dotted name of a library class or function, without private modules."""
    parts = code.__module__.split(".")
    private = next((at for at, part in enumerate(parts) if part.startswith("_")), len(parts))
    return ".".join([*parts[:private], code.__qualname__])


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet
        return None
