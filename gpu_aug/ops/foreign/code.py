"""Descriptions of code, which change when what the code does can change."""

import ast
import functools
import hashlib
import inspect
import re
import textwrap
from typing import Any

import numpy as np

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_DEEPEST = 8


def describe_code(value: Any, depth: int = 0) -> Any:
    """Return what a function or an object does, as plain values ready for JSON.

    Of a function: module, qualified name, and a hash of its source (of its bytecode where there is
    no source), with its defaults and the variables it closes over. Of an object: class, the code of
    the class unless it is a library's, and attributes. What a function calls by a global name is
    not looked into.
    """
    if depth > _DEEPEST:
        return "..."
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return repr(value)
    if isinstance(value, np.ndarray) or hasattr(value, "detach"):
        array = np.ascontiguousarray(
            value if isinstance(value, np.ndarray) else value.detach().cpu()
        )
        return [str(array.dtype), list(array.shape), hashlib.sha256(array.tobytes()).hexdigest()]
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
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, functools.partial):
        parts = (value.func, value.args, value.keywords)
        return ["partial", *(describe_code(part, depth + 1) for part in parts)]
    if inspect.ismethod(value):
        return [describe_code(value.__func__, depth + 1), describe_code(value.__self__, depth + 1)]
    if inspect.isfunction(value):
        return _describe_function(value, depth)
    return _describe_object(value, depth)


def _describe_function(function: Any, depth: int) -> Any:
    cells = [_contents(cell) for cell in function.__closure__ or ()]
    return {
        "name": f"{function.__module__}:{function.__qualname__}",
        "code": _digest(function),
        "defaults": describe_code([function.__defaults__, function.__kwdefaults__], depth + 1),
        "closure": describe_code(cells, depth + 1),
    }


def _describe_object(value: Any, depth: int) -> Any:
    cls = type(value)
    described = [f"{cls.__module__}.{cls.__qualname__}"]
    if not cls.__module__.startswith(("torch", "torchvision", "kornia", "albumentations", "numpy")):
        described.append(_digest(cls))
    attributes = getattr(value, "__dict__", None)
    if attributes is None:
        return [*described, _ADDRESS.sub("", repr(value))]
    kept = {
        name: item
        for name, item in attributes.items()
        if not (name.startswith("_") and cls.__module__.startswith("torch") and not item)
    }
    return [*described, describe_code(kept, depth + 1)]


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet
        return None


def _digest(code: Any) -> str:
    """Return a hash of the meaning of source: comments and layout do not count."""
    if getattr(code, "__name__", "") == "<lambda>":  # its source is the whole line around it
        return hashlib.sha256(_bytecode(code).encode()).hexdigest()
    try:
        text = ast.dump(ast.parse(textwrap.dedent(inspect.getsource(code))))
    except (OSError, TypeError, SyntaxError):
        text = _bytecode(code)
    return hashlib.sha256(text.encode()).hexdigest()


def _bytecode(code: Any) -> str:
    compiled = getattr(code, "__code__", None)
    if compiled is None:
        return ""
    constants = [
        _ADDRESS.sub("", repr(item)) if not hasattr(item, "co_code") else item.co_code.hex()
        for item in compiled.co_consts
    ]
    return f"{compiled.co_code.hex()} {constants} {compiled.co_names} {compiled.co_varnames}"
