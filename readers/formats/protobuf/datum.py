"""Parser of Caffe's Datum, a message of an encoded image or raw pixels, and a label."""

import math
from typing import NamedTuple

import numpy as np

from readers.formats.protobuf.wire import WireError, walk
from readers.sample import Payload

_CHANNELS, _HEIGHT, _WIDTH, _DATA, _LABEL, _FLOATS, _ENCODED = range(1, 8)


class Datum(NamedTuple):
    """A parsed Datum: its label, and the location of its image in the message.

    Attributes:
        start: Offset in the message at which the image or the pixels begin.
        stop: Offset at which they end.
        label: Class number, -1 if there is none.
        encoded: Whether the bytes are an encoded image; if not, they are pixels, uint8 [channels, height, width].
        shape: (channels, height, width), with 0 for a value that the message does not state.
    """

    start: int
    stop: int
    label: int
    encoded: bool
    shape: tuple[int, int, int]


def read_datum(message: Payload) -> Datum:
    """Parse a Datum, without copying its image.

    Raises:
        ValueError: The message is no Datum, holds floats, or has another number of pixels than its shape.
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
    """Convert raw pixels to an image file.

    Args:
        planes: Pixels, uint8 [C, H, W]: one grey plane, or the planes blue, green and red, as in Caffe.
        height: Height H in pixels.
        width: Width W in pixels.

    Returns:
        The name of the field, "pgm" or "ppm", and the content of the file.
    """
    pixels = np.frombuffer(planes, np.uint8).reshape(-1, height, width)
    name, kind = ("pgm", 5) if len(pixels) == 1 else ("ppm", 6)
    interleaved = np.moveaxis(pixels[::-1], 0, -1)
    return name, b"P%d\n%d %d\n255\n" % (kind, width, height) + interleaved.tobytes()


def _number(varint: Payload) -> int:
    number = sum((byte & 127) << 7 * number for number, byte in enumerate(varint))
    return number - (1 << 64) if number >> 63 else number
