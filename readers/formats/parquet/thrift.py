"""The compact protocol of Apache Thrift, as far as the footers and page headers of Parquet use it.

https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from collections.abc import Mapping
from typing import Any

from readers.sample import Payload

Wanted = Mapping[int, Any]
"""Numbers of the fields that are kept; of structs, and of lists of structs, the same for what is in them."""

_MAX_DEPTH = 12


def read_struct(
    data: Payload, place: int, wanted: Wanted | None = None, depth: int = 0
) -> tuple[dict[int, Any], int]:
    """Read a struct.

    Args:
        data: Where it is.
        place: Where in it the struct begins.
        wanted: The fields that are kept, None for all.
        depth: How many structs it lies in.

    Returns:
        Its fields by number (numbers, booleans, bytes, lists and structs; None for kinds that are passed
        over), and the place behind it.

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
        kind = head & 15
        if kind < 3:
            fields[number] = kind == 1
        elif wanted is None:
            fields[number], place = _value(data, place, kind, None, depth)
        elif number in wanted:
            fields[number], place = _value(data, place, kind, wanted[number], depth)
        else:
            place = _behind(data, place, kind, depth)
    return fields, place + 1


def _behind(data: Payload, place: int, kind: int, depth: int) -> int:
    """Return the place behind a value that nobody wants."""
    if 3 < kind < 7:
        while data[place] > 127:
            place += 1
        return place + 1
    if kind == 8:
        length, place = _unsigned(data, place)
        return place + length
    if kind != 12:
        return _value(data, place, kind, {}, depth)[1]
    if depth >= _MAX_DEPTH:
        raise ValueError("structs are nested too deeply")
    while (head := data[place]) != 0:
        place += 1
        if head < 16:  # a number of its own
            _, place = _unsigned(data, place)
        if head & 15 > 2:
            place = _behind(data, place, head & 15, depth + 1)
    return place + 1


def _value(
    data: Payload, place: int, kind: int, wanted: Wanted | None, depth: int
) -> tuple[Any, int]:
    if kind in (4, 5, 6):
        return _integer(data, place)
    if kind == 8:
        length, place = _unsigned(data, place)
        return (bytes(data[place : place + length]) if wanted is None else None), place + length
    if kind == 12:
        return read_struct(data, place, wanted, depth + 1)
    if kind == 9:
        return _list(data, place, wanted, depth)
    if kind in (1, 2, 3):  # in a list a boolean is a byte
        return data[place], place + 1
    if kind == 7:
        return None, place + 8
    raise ValueError(f"a field of kind {kind} does not belong here")


def _list(data: Payload, place: int, wanted: Wanted | None, depth: int) -> tuple[list[Any], int]:
    head = data[place]
    count, place = head >> 4, place + 1
    if count == 15:
        count, place = _unsigned(data, place)
    if count > len(data) - place:  # each takes a byte at least
        raise IndexError
    items, kind = [], head & 15
    for _ in range(count):
        if wanted == {}:
            place = place + 1 if kind < 3 else _behind(data, place, kind, depth)
        else:
            item, place = _value(data, place, kind, wanted, depth)
            items.append(item)
    return items, place


def _unsigned(data: Payload, place: int) -> tuple[int, int]:
    number = data[place]
    place += 1
    if number < 128:
        return number, place
    number &= 127
    for shift in range(7, 70, 7):
        byte = data[place]
        place += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, place
    raise ValueError("a number is longer than 64 bits")


def _integer(data: Payload, place: int) -> tuple[int, int]:
    number, place = _unsigned(data, place)
    return number >> 1 ^ -(number & 1), place
