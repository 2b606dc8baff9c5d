"""Parser of structure arrays in MATLAB 5 files, such as the classes in ImageNet's development kit.

SciPy also reads such files, but damaged bytes can crash the process there.

Source: MATLAB, MAT-File Format, for level 5.
"""

import math
import struct
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

_HEADER_BYTES = 128
_MAX_BYTES = 1 << 28  # of decompressed data, and values of a matrix; meta.mat has less than 1 MB
_MAX_DEPTH = 8  # of nested matrices; meta.mat has 2
# Codes of the format. Types of elements:
_MATRIX, _COMPRESSED = 14, 15
_STRUCTURES, _TEXT = 2, 4  # classes of matrices
_NUMBERS = {
    1: "i1",
    2: "u1",
    3: "i2",
    4: "u2",
    5: "i4",
    6: "u4",
    7: "f4",
    9: "f8",
    12: "i8",
    13: "u8",
}
_CODINGS = {16: "utf-8", 17: "utf-16", 18: "utf-32"}
_NUMERIC_CLASSES = range(6, 16)


class _Element(NamedTuple):
    """An element of the file: the code of its type, and its content."""

    kind: int
    content: bytes


def read_structures(data: bytes, name: str) -> list[dict[str, Any]]:
    """Return the structures in an array of a MATLAB 5 file.

    Args:
        data: Content of the file.
        name: Name of the variable that holds the structure array.

    Returns:
        For each structure a dict from field name to value: a str, a number, or None for a value of another type.

    Raises:
        ValueError: The data is no MATLAB 5 file, is damaged, or has no structure array of this name.
    """
    if len(data) < _HEADER_BYTES or data[126:128] not in (b"IM", b"MI"):
        raise ValueError("it is no MATLAB file of version 5")
    order = "<" if data[126:128] == b"IM" else ">"
    for element in _elements(data[_HEADER_BYTES:], order):
        for part in _inflated(element, order):
            if part.kind == _MATRIX:
                variable_name, value = _matrix(part.content, order, 0)
                if variable_name == name and isinstance(value, list):
                    return value
    raise ValueError(f"it has no table {name}")


def _inflated(element: _Element, order: str) -> Iterator[_Element]:
    if element.kind != _COMPRESSED:
        yield element
        return
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(element.content, _MAX_BYTES)
    except zlib.error as error:
        raise ValueError(f"it cannot be decompressed ({error})") from None
    if stream.unconsumed_tail:
        raise ValueError("it is too large")
    yield from _elements(content, order)


def _elements(data: bytes, order: str) -> Iterator[_Element]:
    """Yield the elements stored one after the other in `data`; `order` is the byte order, "<" or ">"."""
    position, tag = 0, struct.Struct(f"{order}II")
    while position < len(data):
        if position + tag.size > len(data):
            raise ValueError("it ends within an element")
        kind, length = tag.unpack_from(data, position)
        start = position + 8
        if kind >> 16:  # a short element holds up to four bytes in the tag itself
            kind, length, start = kind & 0xFFFF, kind >> 16, position + 4
        stop = start + length
        if stop > len(data):
            raise ValueError("it ends within an element")
        yield _Element(kind, data[start:stop])
        position = stop if kind == _COMPRESSED else max(-(-stop // 8) * 8, position + 8)


def _matrix(content: bytes, order: str, depth: int) -> tuple[str, Any]:
    """Return the name and value of a matrix: a list of structures, a str, a number, or None for another type."""
    if depth > _MAX_DEPTH:
        raise ValueError("it is nested too deeply")
    parts = _elements(content, order)
    flags, sizes, name = (next(parts, _Element(0, b"")) for _ in range(3))
    if len(flags.content) < 8:
        return "", None  # an empty matrix
    kind = struct.unpack_from(f"{order}I", flags.content)[0] & 0xFF
    count = math.prod(max(int(size), 0) for size in _numbers(sizes, order))
    if count > _MAX_BYTES:
        raise ValueError("it is too large")
    called = str(name.content, "latin-1")
    if kind == _STRUCTURES:
        return called, _structures(parts, count, order, depth)
    value: Any = None
    if kind == _TEXT:
        value = _text(next(parts, _Element(0, b"")), order)
    elif kind in _NUMERIC_CLASSES and count == 1:
        numbers = _numbers(next(parts, _Element(0, b"")), order)
        value = numbers[0] if len(numbers) == 1 else None
    return called, value


def _structures(
    parts: Iterator[_Element], count: int, order: str, depth: int
) -> list[dict[str, Any]]:
    [length, *_] = [*_numbers(next(parts, _Element(0, b"")), order), 0]
    listed = next(parts, _Element(0, b"")).content
    if not 0 < length <= 64:
        raise ValueError("its structures have no fields")
    step = int(length)
    names = [
        str(listed[at : at + step].split(b"\0")[0], "latin-1") for at in range(0, len(listed), step)
    ]
    values = [_matrix(part.content, order, depth + 1)[1] for part in parts if part.kind == _MATRIX]
    if not names or len(values) != count * len(names):
        raise ValueError("its structures are not whole")
    return [
        dict(zip(names, values[at : at + len(names)], strict=True))
        for at in range(0, len(values), len(names))
    ]


def _text(element: _Element, order: str) -> str:
    ending = "le" if order == "<" else "be"
    if element.kind in _CODINGS:
        coding = _CODINGS[element.kind]
        return str(
            element.content, coding if coding == "utf-8" else f"{coding}-{ending}", "replace"
        )
    if element.kind == 4:
        return str(element.content, f"utf-16-{ending}", "replace")
    return str(element.content, "latin-1")


def _numbers(element: _Element, order: str) -> list[Any]:
    kind = _NUMBERS.get(element.kind)
    if kind is None:
        return []
    whole = len(element.content) // int(kind[1]) * int(kind[1])
    numbers: list[Any] = np.frombuffer(element.content[:whole], f"{order}{kind}").tolist()
    return numbers
