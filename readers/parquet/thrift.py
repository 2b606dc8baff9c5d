"""The compact protocol of Apache Thrift, as far as the page headers of Parquet use it.

https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from typing import Any

from readers.sample import Payload

_MAX_DEPTH = 8


def read_struct(data: Payload, place: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """Read a struct.

    Args:
        data: Where it is.
        place: Where in it the struct begins.
        depth: How many structs it lies in.

    Returns:
        Its fields by number (numbers, booleans and structs; None for kinds that are passed over), and
        the place behind it.

    Raises:
        IndexError: The data ends within it.
        ValueError: This is no such struct.
    """
    if depth > _MAX_DEPTH:
        raise ValueError("structs are nested too deeply")
    fields: dict[int, Any] = {}
    number = 0
    while (head := data[place]) != 0:
        place += 1
        if head >> 4:
            number += head >> 4
        else:
            number, place = _integer(data, place)
        fields[number], place = _value(data, place, head & 15, depth)
    return fields, place + 1


def _value(data: Payload, place: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (1, 2):
        return kind == 1, place
    if kind == 3:
        return data[place], place + 1
    if kind in (4, 5, 6):
        return _integer(data, place)
    if kind == 7:
        return None, place + 8
    if kind == 8:
        length, place = _unsigned(data, place)
        return None, place + length
    if kind == 12:
        return read_struct(data, place, depth + 1)
    raise ValueError(f"a field of kind {kind} does not belong here")


def _unsigned(data: Payload, place: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        byte = data[place]
        place += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, place
    raise ValueError("a number is longer than 64 bits")


def _integer(data: Payload, place: int) -> tuple[int, int]:
    number, place = _unsigned(data, place)
    return number >> 1 ^ -(number & 1), place
