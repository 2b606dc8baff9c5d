"""Parser of Apache Thrift's compact protocol, for the footers and page headers of Parquet.

https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from collections.abc import Mapping
from typing import Any

from readers.sample import Payload

Wanted = Mapping[int, Any]
"""The fields to read: dict from field id to None, or to such a dict for a struct or a list of structs."""

_MAX_DEPTH = 12  # levels of structs; more count as damage, and would exhaust the stack


def read_struct(
    data: Payload, offset: int, wanted: Wanted | None = None, depth: int = 0
) -> tuple[dict[int, Any], int]:
    """Parse a struct.

    Args:
        data: Bytes that contain the struct.
        offset: Offset in `data` at which the struct begins.
        wanted: The fields to read, None for all; others are skipped.
        depth: Number of structs around this one.

    Returns:
        Dict from field id to value (int, bool, bytes, list or dict; None for a value of an unsupported type), and the
        offset of the end of the struct.

    Raises:
        IndexError: The data ends within the struct.
        ValueError: The data is no valid struct.
    """
    if depth > _MAX_DEPTH:
        raise ValueError("structs are nested too deeply")
    fields: dict[int, Any] = {}
    number = 0
    while (head := data[offset]) != 0:
        offset += 1
        if head >> 4:
            number += head >> 4
        else:
            number, offset = _integer(data, offset)
        kind = head & 15
        if kind < 3:
            fields[number] = kind == 1
        elif wanted is None:
            fields[number], offset = _value(data, offset, kind, None, depth)
        elif number in wanted:
            fields[number], offset = _value(data, offset, kind, wanted[number], depth)
        else:
            offset = _behind(data, offset, kind, depth)
    return fields, offset + 1


def _behind(data: Payload, offset: int, kind: int, depth: int) -> int:
    """Return the offset of the end of a value, which is skipped."""
    if 3 < kind < 7:
        while data[offset] > 127:
            offset += 1
        return offset + 1
    if kind == 8:
        length, offset = read_varint(data, offset)
        return offset + length
    if kind != 12:
        return _value(data, offset, kind, {}, depth)[1]
    if depth >= _MAX_DEPTH:
        raise ValueError("structs are nested too deeply")
    while (head := data[offset]) != 0:
        offset += 1
        if head < 16:  # the field id follows as a varint
            _, offset = read_varint(data, offset)
        if head & 15 > 2:
            offset = _behind(data, offset, head & 15, depth + 1)
    return offset + 1


def _value(
    data: Payload, offset: int, kind: int, wanted: Wanted | None, depth: int
) -> tuple[Any, int]:
    if kind in (4, 5, 6):
        return _integer(data, offset)
    if kind == 8:
        length, offset = read_varint(data, offset)
        return (bytes(data[offset : offset + length]) if wanted is None else None), offset + length
    if kind == 12:
        return read_struct(data, offset, wanted, depth + 1)
    if kind == 9:
        return _list(data, offset, wanted, depth)
    if kind in (1, 2, 3):  # in a list a boolean is a byte
        return data[offset], offset + 1
    if kind == 7:
        return None, offset + 8
    raise ValueError(f"a field of kind {kind} does not belong here")


def _list(data: Payload, offset: int, wanted: Wanted | None, depth: int) -> tuple[list[Any], int]:
    head = data[offset]
    count, offset = head >> 4, offset + 1
    if count == 15:
        count, offset = read_varint(data, offset)
    if count > len(data) - offset:  # each item takes at least one byte
        raise IndexError
    items, kind = [], head & 15
    for _ in range(count):
        if wanted == {}:
            offset = offset + 1 if kind < 3 else _behind(data, offset, kind, depth)
        else:
            item, offset = _value(data, offset, kind, wanted, depth)
            items.append(item)
    return items, offset


def read_varint(data: Payload, offset: int) -> tuple[int, int]:
    """Return an unsigned integer stored as a varint (7 bits per byte), and the offset of its end.

    Raises:
        IndexError: The data ends within the varint.
        ValueError: The varint is longer than 64 bits.
    """
    number = data[offset]
    offset += 1
    if number < 128:
        return number, offset
    number &= 127
    for shift in range(7, 70, 7):
        byte = data[offset]
        offset += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, offset
    raise ValueError("a number is longer than 64 bits")


def _integer(data: Payload, offset: int) -> tuple[int, int]:
    number, offset = read_varint(data, offset)
    return number >> 1 ^ -(number & 1), offset
