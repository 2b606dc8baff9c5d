"""The header of a baseline JPEG, read in compiled code.

Only what is common is accepted. Everything else gets a status, and a decoder that knows more takes over.
Source: ITU-T T.81, annex B; the verdicts on odd cases are libjpeg-turbo's or stricter.
"""

from typing import Any

import numpy as np

from dali_pipes.jpeg.exif import BAD, read_orientation
from dali_pipes.jpeg.reasons import (
    BAD_HEADER,
    BAD_TABLE,
    GOOD,
    NOT_BASELINE,
    NOT_JPEG,
    NOT_SUPPORTED,
    NOT_YCBCR,
)
from gpu_aug.compiled.jit import inlined, kernel, load_u8, signed, view_i16, view_i64, view_u8

# Places in `header`, int64 [HEADER_LENGTH].
HEIGHT, WIDTH, COMPONENTS, ORIENTATION, RESTART, SCAN, ADOBE = range(7)
"""Size as stored, number of components, EXIF orientation, MCUs between restarts, start of the scan's bytes,
and Adobe's colour transform + 1 (0 without Adobe's segment)."""
IDS, ACROSS, DOWN, QUANT, DC, AC = 8, 11, 14, 17, 20, 23
"""First of three: component number, sampling factors, numbers of the tables."""
HEADER_LENGTH = 26

TABLE_BYTES = 16 + 256
"""A Huffman table as stored: 16 counts, then the symbols."""

_MISSING = 255  # more codes of one bit than there can be
_MAX_SIDE = 65500  # libjpeg's limit
_MAX_PIXELS = 1 << 30  # OpenCV's limit
_SOI, _EOI, _SOS, _DQT, _DHT, _DRI, _COM = 0xD8, 0xD9, 0xDA, 0xDB, 0xC4, 0xDD, 0xFE
_SOF0, _SOF1, _APP0, _APP1, _APP14, _APP15 = 0xC0, 0xC1, 0xE0, 0xE1, 0xEE, 0xEF

ZIGZAG = np.array(
    [
        *(0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5),
        *(12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21, 28),
        *(35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51),
        *(58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63),
    ],
    np.uint8,
)
"""Where the coefficient with a place in the zigzag order lies in the block, row by row."""


@kernel
def read_header(
    data: int, length: int, header_address: int, quant_address: int, huffman_address: int
) -> int:
    """Read everything in front of the scan.

    Args:
        data: Address of the file's bytes.
        length: How many there are.
        header_address: Address of int64 [HEADER_LENGTH], written.
        quant_address: Address of int16 [4, 64], written: the quantisation tables, row by row.
        huffman_address: Address of uint8 [8, TABLE_BYTES], written: four tables for DC, four for AC.

    Returns:
        A status.
    """
    if length < 4 or _be16(data) != 0xFF00 | _SOI or _be16(data + length - 2) != 0xFF00 | _EOI:
        return NOT_JPEG
    header = view_i64(header_address, (HEADER_LENGTH,))
    quant = view_i16(quant_address, (4, 64))
    huffman = view_u8(huffman_address, (8, TABLE_BYTES))
    header[:] = 0
    quant[:, 0] = 0
    huffman[:, 0] = _MISSING
    position = 2
    while position + 4 <= length:
        marker = _be16(data + position)
        if marker == 0xFFFF:  # padding
            position += 1
            continue
        marker -= 0xFF00
        size = _be16(data + position + 2)
        body = data + position + 4
        position += 2 + size
        if size < 2 or position > length:
            return BAD_HEADER
        size -= 2
        status = GOOD
        if marker == _SOS:
            header[SCAN] = position
            return _finish(body, size, header, quant, huffman)
        if marker in (_SOF0, _SOF1):
            status = _read_frame(body, size, header)
        elif marker == _DHT:
            status = _read_huffman(body, size, huffman)
        elif marker == _DQT:
            status = _read_quant(body, size, quant)
        elif marker == _DRI:
            if size != 2:
                return BAD_HEADER
            header[RESTART] = _be16(body)
        elif marker == _APP1:
            if header[ORIENTATION] == 0:  # the first one that has the tag counts
                header[ORIENTATION] = read_orientation(body, size)
                if header[ORIENTATION] == BAD:
                    return BAD_HEADER
        elif marker == _APP14:
            if size >= 12 and load_u8(body) == 65 and load_u8(body + 1) == 100:
                header[ADOBE] = 1 + signed(load_u8(body + 11))
        elif marker != _COM and (marker < _APP0 or marker > _APP15):
            return NOT_BASELINE
        if status != GOOD:
            return status
    return BAD_HEADER


@inlined
def _be16(address: int) -> int:
    return signed(load_u8(address)) << 8 | signed(load_u8(address + 1))


@inlined
def _read_frame(body: int, size: int, header: Any) -> int:
    if header[HEIGHT] != 0 or size < 6:
        return BAD_HEADER
    height, width, components = _be16(body + 1), _be16(body + 3), signed(load_u8(body + 5))
    if load_u8(body) != 8:
        return NOT_BASELINE
    if height == 0 or width == 0 or height * width > _MAX_PIXELS:
        return BAD_HEADER
    if height > _MAX_SIDE or width > _MAX_SIDE or size != 6 + 3 * components:
        return BAD_HEADER
    if components != 1 and components != 3:
        return NOT_YCBCR
    header[HEIGHT], header[WIDTH], header[COMPONENTS] = height, width, components
    for component in range(components):
        entry = body + 6 + 3 * component
        factors = signed(load_u8(entry + 1))
        header[IDS + component] = load_u8(entry)
        header[ACROSS + component] = factors >> 4
        header[DOWN + component] = factors & 15
        if not (1 <= factors >> 4 <= 4 and 1 <= factors & 15 <= 4):
            return NOT_SUPPORTED
        header[QUANT + component] = load_u8(entry + 2)
    return GOOD


@inlined
def _read_huffman(body: int, size: int, huffman: Any) -> int:
    while size > 0:
        if size < 17:
            return BAD_TABLE
        name = signed(load_u8(body))
        if name & 15 > 3 or name >> 4 > 1:
            return BAD_TABLE
        table = huffman[(name >> 4) * 4 + (name & 15)]
        count = 0
        for length in range(16):
            table[length] = load_u8(body + 1 + length)
            count += signed(table[length])
        if table[0] > 2 or count > 256 or count > size - 17:
            return BAD_TABLE
        table[16:] = 0
        for symbol in range(count):
            table[16 + symbol] = load_u8(body + 17 + symbol)
        body += 17 + count
        size -= 17 + count
    return GOOD


@inlined
def _read_quant(body: int, size: int, quant: Any) -> int:
    while size > 0:
        name = signed(load_u8(body))
        if size < 65 or name > 3:  # above 15: 16 bits to an entry, which baseline never needs
            return BAD_TABLE
        for place in range(64):
            step = load_u8(body + 1 + place)
            if step == 0:
                return BAD_TABLE
            quant[name, ZIGZAG[place]] = step
        body += 65
        size -= 65
    return GOOD


@inlined
def _finish(body: int, size: int, header: Any, quant: Any, huffman: Any) -> int:
    """Read the scan's header, and look whether all it names is there."""
    components = header[COMPONENTS]
    if components == 0:
        return NOT_BASELINE
    if size != 4 + 2 * components or load_u8(body) != components:
        return NOT_BASELINE
    tail = body + 1 + 2 * components
    if load_u8(tail) != 0 or load_u8(tail + 1) != 63 or load_u8(tail + 2) != 0:
        return NOT_BASELINE
    for component in range(components):
        tables = signed(load_u8(body + 2 + 2 * component))
        if load_u8(body + 1 + 2 * component) != header[IDS + component]:
            return NOT_BASELINE
        if tables >> 4 > 3 or tables & 15 > 3 or header[QUANT + component] > 3:
            return BAD_TABLE
        header[DC + component] = tables >> 4
        header[AC + component] = 4 + (tables & 15)
        if quant[header[QUANT + component], 0] == 0:
            return BAD_TABLE
        for table in (header[DC + component], header[AC + component]):
            if huffman[table, 0] == _MISSING:
                return BAD_TABLE
    if components == 3:
        return _check_three(header)
    header[ACROSS], header[DOWN] = 1, 1  # one component stands alone: its factors say nothing
    return GOOD


@inlined
def _check_three(header: Any) -> int:
    if header[ADOBE] != 0 and header[ADOBE] != 2:  # 2 is transform 1: YCbCr
        return NOT_YCBCR
    first, second, third = header[IDS], header[IDS + 1], header[IDS + 2]
    if first == 82 and second == 71 and third == 66:  # "RGB"
        return NOT_YCBCR
    if first in (second, third) or second == third:
        return BAD_HEADER
    blocks = 0
    most_across = max(header[ACROSS], header[ACROSS + 1], header[ACROSS + 2])
    most_down = max(header[DOWN], header[DOWN + 1], header[DOWN + 2])
    for component in range(3):
        across, down = header[ACROSS + component], header[DOWN + component]
        blocks += across * down
        if most_across % across != 0 or most_down % down != 0:
            return NOT_SUPPORTED
    return GOOD if blocks <= 10 else NOT_SUPPORTED
