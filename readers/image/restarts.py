"""Find the restart intervals of a JPEG, which are pieces of its scan that can be decoded independently."""

import struct
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from readers.sample import Payload

_FRAMES = (0xC0, 0xC1)  # sequential with Huffman codes
_OTHER_FRAMES = frozenset(range(0xC2, 0xD0)) - {0xC4, 0xC8, 0xCC}  # without DHT, JPG and DAC
_RESTART_INTERVAL, _START_OF_SCAN, _END_OF_IMAGE = 0xDD, 0xDA, 0xD9  # ITU-T T.81, table B.1
_FIRST_RESTART = 0xD0  # eight markers to 0xD7 take turns
_SEGMENT = struct.Struct(">BBH")  # 0xFF, marker, length (which counts itself)
_FRAME = struct.Struct(">BHHB")  # bits, height, width, components
_LENGTH = struct.Struct(">H")  # the restart interval in MCUs


class _Scan(NamedTuple):
    start: int
    num_intervals: int


def restart_offsets(data: Payload) -> NDArray[np.int64] | None:
    """Return the offsets of the restart intervals of a JPEG (30 us per 100 kB, 3 us if it has none).

    Args:
        data: The bytes of the complete file.

    Returns:
        int64 [intervals + 1]: offset of the entropy-coded data of each interval, and of the marker that ends the scan.
        Interval ``i`` without its marker is ``data[offsets[i] : offsets[i + 1] - 2]``; the last interval ends at
        ``offsets[-1]``. None if the JPEG is not a single sequential scan of 8 bits, has no restart intervals, or has other
        markers than its size and interval require.

    Example:
        >>> with open("photos/cat/000.jpg", "rb") as file:
        ...     print(restart_offsets(file.read()))
        None
    """
    try:
        scan = _find_scan(data)
    except struct.error:  # an offset is after the last byte
        return None
    if scan is None:
        return None
    coded = np.frombuffer(data, np.uint8, offset=scan.start)
    prefixes = np.flatnonzero(coded[:-1] == 0xFF)
    codes = coded[prefixes + 1]
    marks = np.flatnonzero(codes)[: scan.num_intervals]  # 0xFF followed by zero is data
    expected = _FIRST_RESTART + np.arange(scan.num_intervals) % 8
    expected[-1] = _END_OF_IMAGE
    if not np.array_equal(codes[marks], expected):
        return None
    offsets = np.empty(scan.num_intervals + 1, np.int64)
    offsets[0] = scan.start
    offsets[1:] = prefixes[marks] + (scan.start + 2)
    offsets[-1] -= 2
    return offsets


def _find_scan(data: Payload) -> _Scan | None:
    """Return the start of the scan and the number of its restart intervals; None if they cannot be used.

    Raises:
        struct.error: The data ends within the header.
    """
    if data[:2] != b"\xff\xd8":
        return None
    num_mcus = num_components = interval = 0
    position = 2
    while True:
        prefix, marker, length = _SEGMENT.unpack_from(data, position)
        if prefix != 0xFF or marker in _OTHER_FRAMES:
            return None
        if marker == 0xFF:  # padding
            position += 1
            continue
        if marker in _FRAMES:
            num_mcus, num_components = _read_frame(data, position + 4)
        elif marker == _RESTART_INTERVAL:
            (interval,) = _LENGTH.unpack_from(data, position + 4)
        position += 2 + length
        if marker == _START_OF_SCAN:
            break
    num_scanned = data[position - length + 2] if position <= len(data) else 0
    if not (num_mcus and interval) or num_scanned != num_components or position >= len(data):
        return None
    return _Scan(position, -(-num_mcus // interval))


def _read_frame(data: Payload, position: int) -> tuple[int, int]:
    """Return the number of MCUs (0 if the frame cannot be used) and the number of components, given a frame header.

    Args:
        data: The bytes of the file.
        position: Offset of the content of the frame header.
    """
    bits, height, width, num_components = _FRAME.unpack_from(data, position)
    factors = data[position + 7 : position + 6 + 3 * num_components : 3]
    if bits != 8 or not factors:
        return 0, num_components
    across, down = max(factor >> 4 for factor in factors), max(factor & 15 for factor in factors)
    if num_components == 1:  # an MCU is one block for any factors
        across = down = 1
    if not (across and down):
        return 0, num_components
    return -(-height // (8 * down)) * -(-width // (8 * across)), num_components
