"""The compact protocol of Apache Thrift, for the footers and page headers of Parquet.

https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from collections.abc import Mapping
from typing import Any

from readers.sample import Payload

Wanted = Mapping[int, Any]
"""Numbers of the fields that are read, with the same for the fields of structs and of lists of structs."""

_MAX_DEPTH = 12  # deeper structs are damage, and would exhaust the stack


def read_struct(
    data: Payload, offset: int, wanted: Wanted | None = None, depth: int = 0
) -> tuple[dict[int, Any], int]:
    """Read a struct.

    Args:
        data: Where it is.
        offset: Where in it the struct begins.
        wanted: The fields that are read, None for all.
        depth: How many structs it lies in.

    Returns:
        Its fields by number (numbers, booleans, bytes, lists and structs; None for kinds that are passed
        over), and the offset behind it.

    Raises:
        IndexError: The data ends within it.
        ValueError: The data is no struct of this protocol.
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
    """Return the offset behind a value that is skipped."""
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
        if head < 16:  # a number of its own
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
    if count > len(data) - offset:  # each takes a byte at least
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
    """Return a number of 7 bits a byte, at most 64 bits, and the offset behind it.

    Raises:
        IndexError: The data ends within it.
        ValueError: It is longer.
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
