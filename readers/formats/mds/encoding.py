"""Decoders of MDS column values for the encodings of mosaicml-streaming, without that package."""

import io
import math
import struct
from collections.abc import Callable

import numpy as np

from readers.formats.columns import to_payload
from readers.sample import Payload, SourceError

AS_STORED = ("bytes", "str", "jpeg", "png", "json", "str_int", "str_float", "str_decimal")
"""Encodings whose stored bytes are the field's content: images, text, JSON and numbers written as text."""

IMAGES = ("jpeg", "png", "pil", "list[jpeg]", "list[png]", "list[pil]", "jpeg_array", "jpegarray")
LISTS = ("list[jpeg]", "list[png]", "list[pil]", "jpeg_array", "jpegarray")

_SCALARS = {
    "int": "<q",
    "uint8": "<B",
    "uint16": "<H",
    "uint32": "<I",
    "uint64": "<Q",
    "int8": "<b",
    "int16": "<h",
    "int32": "<i",
    "int64": "<q",
    "float16": "<e",
    "float32": "<f",
    "float64": "<d",
}
_ARRAY_TYPES = {
    8: "uint8",
    9: "int8",
    16: "uint16",
    17: "int16",
    18: "float16",
    32: "uint32",
    33: "int32",
    34: "float32",
    64: "uint64",
    65: "int64",
    66: "float64",
}
_PIL_HEAD = struct.Struct("<III")  # width, height, bytes of the mode's name
_PNM = {"L": (b"P5", 1), "RGB": (b"P6", 3)}


def scalar_type(encoding: str) -> str | None:
    """Return the `struct` format of an encoding of single numbers, None for other encodings."""
    return _SCALARS.get(encoding)


def get_decoder(encoding: str, source: str, column: str) -> Callable[[Payload], Payload] | None:
    """Return the function that converts stored values to the field's content, None if the stored bytes are the content.

    The function raises a ValueError for bytes that are no valid value.

    Args:
        encoding: Encoding of the column, none of `LISTS`.
        source: The data, for the error.
        column: Name of the column, for the error.

    Raises:
        SourceError: The encoding is unknown or pickled.
    """
    if encoding in AS_STORED:
        return None
    if encoding in _SCALARS:
        return _number_decoder(struct.Struct(_SCALARS[encoding]))
    if encoding == "pil":
        return decode_pil
    name, _, details = encoding.partition(":")
    if name == "ndarray":
        try:
            return _array_decoder(details)
        except ValueError:
            pass
    if name == "pkl":
        raise SourceError(
            f"{source} holds pickled values in the column {column}, which can run any code when they are read: "
            "name the other columns with columns=, or write it as json or ndarray"
        )
    raise SourceError(
        f"{source} has the encoding {encoding!r} in the column {column}, which is not known: "
        "name the other columns with columns=, or write it as bytes"
    )


def split_list(encoding: str, data: Payload) -> list[Payload]:
    """Return the images in a value that holds a list of images, each as the content of a field.

    Args:
        encoding: Encoding of the column, one of `LISTS`.
        data: The stored value.

    Raises:
        ValueError: The bytes are no valid list.
    """
    head = 0 if encoding.startswith("jpeg") else 4  # list[...] has four bytes that are not used yet
    if len(data) < head + 4:
        raise ValueError(f"a list of {len(data)} bytes")
    num_items = int.from_bytes(data[head : head + 4], "little")
    position = head + 4 + 4 * num_items
    if position > len(data):
        raise ValueError(f"a list of {len(data)} bytes that says it has {num_items} items")
    sizes = np.frombuffer(data, "<u4", num_items, head + 4).tolist()
    if position + sum(sizes) != len(data):
        raise ValueError(f"a list of {len(data)} bytes whose items say {position + sum(sizes)}")
    items = []
    for size in sizes:
        item = data[position : position + size]
        items.append(decode_pil(item) if encoding == "list[pil]" else item)
        position += size
    return items


def decode_pil(data: Payload) -> Payload:
    """Convert a raw picture (encoding pil) of the mode L or RGB to the bytes of a PGM or PPM file.

    Raises:
        ValueError: The picture has another mode, or its size does not fit its number of bytes.
    """
    if len(data) < _PIL_HEAD.size:
        raise ValueError(f"a raw picture of {len(data)} bytes")
    width, height, num_letters = _PIL_HEAD.unpack_from(data)
    start = _PIL_HEAD.size + num_letters
    mode = str(data[_PIL_HEAD.size : min(start, _PIL_HEAD.size + 16)], "latin-1")
    if start > len(data):
        raise ValueError(f"a raw picture of {len(data)} bytes whose mode has {num_letters} letters")
    if mode not in _PNM:
        raise ValueError(f"a raw picture of the mode {mode!r}: L and RGB are read, write it as png")
    signature, num_channels = _PNM[mode]
    if height * width * num_channels != len(data) - start:
        raise ValueError(f"a raw picture of {height} x {width} {mode} in {len(data) - start} bytes")
    return b"%s\n%d %d\n255\n" % (signature, width, height) + data[start:]


def _number_decoder(number: struct.Struct) -> Callable[[Payload], Payload]:
    def decode(data: Payload) -> Payload:
        if len(data) != number.size:
            raise ValueError(f"a number of {number.size} bytes in {len(data)}")
        return to_payload(number.unpack(data)[0])

    return decode


def _array_decoder(details: str) -> Callable[[Payload], Payload]:
    """Return a function that converts stored arrays to .npy files.

    Args:
        details: Fixed dtype and shape in the encoding's name, such as "int32:2,3"; a missing one is read from each value.

    Raises:
        ValueError: The dtype or shape is invalid.
    """
    type_name, _, shape_text = details.partition(":")
    fixed_type = _array_type(type_name) if type_name else None
    fixed_shape = tuple(int(length) for length in shape_text.split(",")) if shape_text else None
    if fixed_shape is not None and min(fixed_shape) < 1:
        raise ValueError(shape_text)

    def decode(data: Payload) -> Payload:
        position, dtype, shape = 0, fixed_type, fixed_shape
        try:
            if dtype is None:
                dtype, position = np.dtype(_ARRAY_TYPES[data[0]]), 1
            if shape is None:
                num_axes, width = data[position] >> 2, 1 << (data[position] & 3)
                shape = tuple(np.frombuffer(data, f"<u{width}", num_axes, position + 1).tolist())
                position += 1 + num_axes * width
        except (KeyError, IndexError, ValueError):
            raise ValueError(
                f"an array whose first bytes say neither type nor shape: {bytes(data[:8])!r}"
            ) from None
        num_bytes = math.prod(shape) * dtype.itemsize
        if num_bytes != len(data) - position:
            raise ValueError(f"an array of {num_bytes} bytes in {len(data) - position}")
        array = np.frombuffer(data, dtype, offset=position) if num_bytes else np.empty(0, dtype)
        try:
            array = array.reshape(shape)
        except (ValueError, OverflowError):
            raise ValueError(f"an array of the shape {shape}, which no array can have") from None
        stream = io.BytesIO()
        np.save(stream, array, allow_pickle=False)
        return stream.getvalue()

    return decode


def _array_type(name: str) -> "np.dtype[np.generic]":
    if name not in _ARRAY_TYPES.values():
        raise ValueError(name)
    return np.dtype(name)
