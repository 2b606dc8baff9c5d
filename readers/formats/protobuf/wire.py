"""Parser of protocol buffers and tf.train.Example without the protobuf library; it finds fields by their offsets.

Nothing is copied, and all lengths are checked: a length that leads out of its message is an error. Unknown fields are
skipped, and the time is linear in the number of bytes.
"""

import struct
from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np

from readers.sample import Payload

Kind = Literal["bytes", "float", "int64"]

_VARINT, _EIGHT_BYTES, _BLOCK, _FOUR_BYTES = 0, 1, 2, 5
_LISTS: dict[int, Kind] = {1: "bytes", 2: "float", 3: "int64"}  # BytesList, FloatList, Int64List
# Tags (field number and wire type in one byte) of the fields in an Example that is written in the usual way.
_MAP_ENTRY, _MAP_KEY, _MAP_VALUE, _VALUES = 0x0A, 0x0A, 0x12, 0x0A
_BYTES_LIST, _FLOAT_LIST, _INT64_LIST = 0x0A, 0x12, 0x1A
_KINDS: dict[int, Kind] = {_BYTES_LIST: "bytes", _FLOAT_LIST: "float", _INT64_LIST: "int64"}


class WireError(ValueError):
    """Raised for bytes that are no message of the expected kind; the text is a short reason."""


class Piece(NamedTuple):
    """The location of one field of a message.

    Attributes:
        number: Field number in the .proto file.
        wire: Wire type: 0 (varint), 1 (8 bytes), 2 (length and bytes) or 5 (4 bytes).
        start: Offset of the content in the data, after its length.
        stop: Offset of the end of the content.
    """

    number: int
    wire: int
    start: int
    stop: int


class Feature(NamedTuple):
    """The location of one feature of a tf.train.Example.

    Attributes:
        kind: Kind of its values, None if the feature has no list of values.
        start: Offset of the message Feature in the data.
        stop: Offset of the end of the message.
    """

    kind: Kind | None
    start: int
    stop: int


def walk(data: Payload, start: int, stop: int) -> Iterator[Piece]:
    """Yield the fields of the message data[start:stop], in stored order.

    Raises:
        WireError: The message ends within a field, or has a field of an unknown wire type.
    """
    position = start
    while position < stop:
        tag = data[position]
        position += 1
        if tag >= 128:
            tag, position = _varint(data, position - 1, stop)
        wire = tag & 7
        if wire == _BLOCK:
            if position >= stop:
                raise WireError(f"it ends at byte {stop}, within a field")
            length = data[position]
            position += 1
            if length >= 128:
                length, position = _varint(data, position - 1, stop)
            end = position + length
        elif wire == _VARINT:
            _, end = _varint(data, position, stop)
        elif wire == _EIGHT_BYTES:
            end = position + 8
        elif wire == _FOUR_BYTES:
            end = position + 4
        else:
            raise WireError(f"byte {position - 1} is no field of a message")
        if end > stop or tag < 8:
            raise WireError(f"the field before byte {position} leads out of its message")
        yield Piece(tag >> 3, wire, position, end)
        position = end


def find_features(data: Payload) -> dict[str, Feature]:
    """Return the features of a tf.train.Example.

    Args:
        data: The complete record.

    Returns:
        Locations of the features by name, in stored order; if two features have one name, the later one counts.

    Raises:
        WireError: The record is no tf.train.Example, or is a SequenceExample.
    """
    found: dict[str, Feature] = {}
    for part in walk(data, 0, len(data)):
        if part.wire == _BLOCK and part.number == 2:
            raise WireError("it is a tf.train.SequenceExample")
        if part.wire != _BLOCK or part.number != 1:
            continue
        position = part.start
        while position < part.stop:
            entry = _usual_entry(data, position, part.stop)
            if entry is None:
                item = next(walk(data, position, part.stop))
                entry = _map_entry(data, item) if item.wire == _BLOCK and item.number == 1 else None
                position = item.stop
            else:
                position = entry[1].stop
            if entry is not None:
                found[entry[0]] = entry[1]
    return found


def find_values(data: Payload, start: int, stop: int) -> list[tuple[int, int]]:
    """Return (start, stop) of each value in the feature of bytes at data[start:stop], as offsets in the data.

    Raises:
        WireError: The list is damaged.
    """
    listed = _block(data, start, stop, _BYTES_LIST)
    only = listed and listed[1] == stop and _block(data, *listed, _VALUES)
    if only and only[1] == stop:
        return [only]
    found = []
    for part in walk(data, start, stop):
        if part.wire == _BLOCK and part.number == 1:
            for value in walk(data, part.start, part.stop):
                if value.wire == _BLOCK and value.number == 1:
                    found.append((value.start, value.stop))
        elif part.wire == _BLOCK and part.number in _LISTS:
            found = []  # of several lists the last one counts
    return found


def read_numbers(data: Payload, start: int, stop: int) -> list[int] | list[float]:
    """Return the values of the float or int64 feature at data[start:stop].

    Raises:
        WireError: The list is damaged, or holds bytes.
    """
    if stop - start > 1 and data[start] in (_FLOAT_LIST, _INT64_LIST):
        listed = _block(data, start, stop, data[start])
        values = listed and listed[1] == stop and _block(data, *listed, _VALUES)
        if values and values[1] == stop:  # packed, as nearly all are
            packed = Piece(1, _BLOCK, *values)
            is_float = data[start] == _FLOAT_LIST
            return _read_floats(data, packed) if is_float else _read_integers(data, packed)
    floats: list[float] = []
    integers: list[int] = []
    kind: Kind | None = None
    for part in walk(data, start, stop):
        if part.wire != _BLOCK or part.number not in _LISTS:
            continue
        if _LISTS[part.number] != kind:  # of several lists the last one counts
            kind = _LISTS[part.number]
            floats, integers = [], []
        for value in walk(data, part.start, part.stop):
            if value.number != 1:
                continue
            if kind == "float":
                floats += _read_floats(data, value)
            elif kind == "int64":
                integers += _read_integers(data, value)
    if kind == "bytes":
        raise WireError("the feature holds bytes, no numbers")
    return floats if kind == "float" else integers


def _usual_entry(data: Payload, start: int, stop: int) -> tuple[str, Feature] | None:
    """Return the name and location of the feature at the beginning of data[start:stop].

    None if its fields are not in the usual order, for which a slower parser is needed.
    """
    entry = _block(data, start, stop, _MAP_ENTRY)
    key = entry and _block(data, *entry, _MAP_KEY)
    value = entry and key and _block(data, key[1], entry[1], _MAP_VALUE)
    if not entry or not key or not value or value[0] == value[1] or value[1] != entry[1]:
        return None
    kind = _KINDS.get(data[value[0]])
    listed = kind and _block(data, *value, data[value[0]])
    if not listed or listed[1] != value[1]:
        return None
    try:
        return str(data[slice(*key)], "utf-8"), Feature(kind, *value)
    except UnicodeDecodeError:
        return None


def _block(data: Payload, start: int, stop: int, tag: int) -> tuple[int, int] | None:
    """Return (start, stop) of the content of the field with this tag at the beginning of data[start:stop].

    None if there is no complete field with this tag.
    """
    if stop - start < 2 or data[start] != tag:
        return None
    length = data[start + 1]
    start += 2
    if length >= 128:
        try:
            length, start = _varint(data, start - 1, stop)
        except WireError:
            return None
    return (start, start + length) if start + length <= stop else None


def _map_entry(data: Payload, item: Piece) -> tuple[str, Feature]:
    name, start, stop = "", item.stop, item.stop
    for part in walk(data, item.start, item.stop):
        if part.wire == _BLOCK and part.number == 1:
            try:
                name = str(data[part.start : part.stop], "utf-8")
            except UnicodeDecodeError:
                raise WireError("the name of a feature is not UTF-8") from None
        elif part.wire == _BLOCK and part.number == 2:
            start, stop = part.start, part.stop
    kind: Kind | None = None
    for part in walk(data, start, stop):
        if part.wire == _BLOCK and part.number in _LISTS:
            kind = _LISTS[part.number]
    return name, Feature(kind, start, stop)


def _read_floats(data: Payload, value: Piece) -> list[float]:
    length = value.stop - value.start
    if value.wire not in (_BLOCK, _FOUR_BYTES) or length % 4:
        raise WireError(f"the floats before byte {value.stop} are no multiple of 4 bytes")
    if length == 4:
        return [_FLOAT.unpack_from(data, value.start)[0]]
    values: list[float] = np.frombuffer(data, "<f4", length // 4, value.start).tolist()
    return values


def _read_integers(data: Payload, value: Piece) -> list[int]:
    if value.wire not in (_BLOCK, _VARINT):
        raise WireError(f"the integers before byte {value.stop} are no varints")
    values, position = [], value.start
    small = bytes(data[position : value.stop])
    if small.isascii():  # one byte each
        return list(small)
    while position < value.stop:
        if position + 1 < value.stop and data[position + 1] < 128 <= data[position]:  # two bytes
            values.append(data[position] & 127 | data[position + 1] << 7)
            position += 2
            continue
        number, position = _varint(data, position, value.stop)
        values.append(number - (1 << 64) if number >> 63 else number)
    return values


def _varint(data: Payload, position: int, stop: int) -> tuple[int, int]:
    """Return the integer in the varint at `position` (7 bits per byte), and the offset of its end."""
    number = shift = 0
    while position < stop and shift < 70:
        byte = data[position]
        position += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number & 0xFFFF_FFFF_FFFF_FFFF, position
        shift += 7
    raise WireError(f"the number before byte {position} has no end")


_FLOAT = struct.Struct("<f")
