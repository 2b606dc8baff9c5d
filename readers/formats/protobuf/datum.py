"""Caffe's Datum, a message that holds an encoded image or raw pixels, and its label."""

import math
from typing import NamedTuple

import numpy as np

from readers.formats.protobuf.wire import WireError, walk
from readers.sample import Payload

_CHANNELS, _HEIGHT, _WIDTH, _DATA, _LABEL, _FLOATS, _ENCODED = range(1, 8)


class Datum(NamedTuple):
    """The label of a Datum, and the offsets of its bytes.

    Attributes:
        start: Where the image or the pixels begin, in bytes from the start of the message.
        stop: The byte behind the last one.
        label: Class number, -1 if there is none.
        encoded: The bytes are an image file; else pixels [channels, height, width], uint8.
        shape: (channels, height, width), zeros where it does not say.
    """

    start: int
    stop: int
    label: int
    encoded: bool
    shape: tuple[int, int, int]


def read_datum(message: Payload) -> Datum:
    """Read a Datum without its bytes.

    Raises:
        ValueError: It is no Datum, holds floats, or another number of pixels than it says.
    """
    numbers = {_CHANNELS: 0, _HEIGHT: 0, _WIDTH: 0, _LABEL: -1, _ENCODED: 0}
    span = None
    for piece in walk(message, 0, len(message)):
        if piece.number in numbers and piece.wire == 0:
            numbers[piece.number] = _number(message[piece.start : piece.stop])
        elif piece.number == _DATA and piece.wire == 2:
            span = (piece.start, piece.stop)
        elif piece.number == _FLOATS:
            raise ValueError("the Datum holds floats, no image of 8 bits: write its data as bytes")
        else:
            raise WireError(f"a Datum has no field {piece.number} of the wire type {piece.wire}")
    if span is None:
        raise WireError("it has no bytes, as a Datum has")
    shape = (numbers[_CHANNELS], numbers[_HEIGHT], numbers[_WIDTH])
    encoded = bool(numbers[_ENCODED])
    if not encoded and (
        shape[0] not in (1, 3) or min(shape) < 1 or math.prod(shape) != span[1] - span[0]
    ):
        raise ValueError(
            f"the Datum says {shape[0]} channels of {shape[1]}x{shape[2]} and holds "
            f"{span[1] - span[0]} bytes: it must be 1 or 3 channels of 8 bits"
        )
    return Datum(*span, numbers[_LABEL], encoded, shape)


def to_pnm(planes: Payload, height: int, width: int) -> tuple[str, bytes]:
    """Make an image file of raw pixels.

    Args:
        planes: uint8 [C, H, W]: C = 1 is grey, C = 3 the planes blue, green and red, as Caffe has them.
        height: H.
        width: W.

    Returns:
        The field's name, "pgm" or "ppm", and the file.
    """
    pixels = np.frombuffer(planes, np.uint8).reshape(-1, height, width)
    name, kind = ("pgm", 5) if len(pixels) == 1 else ("ppm", 6)
    interleaved = np.moveaxis(pixels[::-1], 0, -1)
    return name, b"P%d\n%d %d\n255\n" % (kind, width, height) + interleaved.tobytes()


def _number(varint: Payload) -> int:
    number = sum((byte & 127) << 7 * number for number, byte in enumerate(varint))
    return number - (1 << 64) if number >> 63 else number
