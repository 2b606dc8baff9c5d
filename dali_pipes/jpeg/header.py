"""Read the header of a JPEG, and the segments between its scans, in compiled code.

Only common kinds of JPEGs are accepted. Any other file gets a status, and another decoder takes over.
Source: ITU-T T.81, annex B; unusual files are judged like libjpeg-turbo does, or more strictly.
"""

from typing import Any

from dali_pipes.jpeg.exif import BAD, read_orientation
from dali_pipes.jpeg.file_bytes import be16
from dali_pipes.jpeg.huffman import ZIGZAG
from dali_pipes.jpeg.memory import MAX_BLOCKS
from dali_pipes.jpeg.status import (
    BAD_HEADER,
    BAD_TABLE,
    CUT_SHORT,
    GOOD,
    NOT_BASELINE,
    NOT_JPEG,
    NOT_SUPPORTED,
    NOT_YCBCR,
    SEVERAL_SCANS,
)
from gpu_aug.compiled.jit import inlined, inner, load_u8, signed

MISSING = 255
"""First count of a table that does not exist; a real table has at most two codes of one bit."""

MOST_SIDE = 65500
"""libjpeg's limit of width and height."""

_MAX_PIXELS = 1 << 30  # OpenCV's limit
# Markers: ITU-T T.81, table B.1.
_SOI, EOI, SOS, _DQT, _DHT, _DRI, _COM = 0xD8, 0xD9, 0xDA, 0xDB, 0xC4, 0xDD, 0xFE
_SOF0, _SOF1, SOF2, _APP0, _APP1, _APP14, _APP15 = 0xC0, 0xC1, 0xC2, 0xE0, 0xE1, 0xEE, 0xEF


@inner
def read_header(memory: Any) -> int:
    """Read all segments before the first scan into `header`, `quant` and `huffman` of the memory.

    Returns:
        A status: SEVERAL_SCANS if the first scan does not hold the complete image; that scan's header is not judged.
    """
    data, length = memory.job.data, memory.job.length
    if length < 4 or be16(data) != 0xFF00 | _SOI or be16(data + length - 2) != 0xFF00 | EOI:
        return NOT_JPEG
    header = memory.header
    header.height = header.components = header.orientation = header.restart = header.adobe = 0
    header.across[:] = 0
    header.down[:] = 0
    memory.quant[:, 0] = 0
    memory.huffman[:, 0] = MISSING
    status, position = read_segments(memory, 2)
    if status != GOOD:
        return status
    size = be16(data + position + 2)
    header.scan = position + 2 + size
    status = _finish(data + position + 4, size - 2, header, memory.quant, memory.huffman)
    if status == SEVERAL_SCANS:
        header.scan = position
    return status


@inlined
def read_size(memory: Any, size: Any) -> int:
    """Read a header and return a status; if it is GOOD, write the upright image's height and width to `size`."""
    status = read_header(memory)
    if status in (GOOD, SEVERAL_SCANS):
        size[0], size[1] = upright_size(memory.header)
    return signed(status)


@inlined
def upright_size(header: Any) -> tuple[int, int]:
    """Return height and width of the image after applying its EXIF orientation."""
    if header.orientation >= 5:
        return header.width, header.height
    return header.height, header.width


@inner
def read_segments(memory: Any, position: int) -> tuple[int, int]:
    """Read the segments from an offset (2 for the header) up to the next scan or the end of the file.

    Returns:
        A status, and the offset of the segment that starts the scan, or of the end marker; a header must not have the latter.
    """
    data, length, is_header = memory.job.data, memory.job.length, position == 2
    while position + 2 <= length:
        marker = be16(data + position)
        if marker == 0xFF00 | EOI and not is_header:
            return GOOD, position
        if marker == 0xFFFF:  # padding
            position += 1
            continue
        if position + 4 > length:
            break
        size = be16(data + position + 2)
        if size < 2 or position + 2 + size > length:
            return BAD_HEADER, position
        if marker == 0xFF00 | SOS:
            return GOOD, position
        body = data + position + 4
        if is_header:
            status = _read_first(marker - 0xFF00, body, size - 2, memory)
        else:
            status = _read_tables(marker - 0xFF00, body, size - 2, memory)
        if status != GOOD:
            return status, position
        position += 2 + size
    return BAD_HEADER if is_header else CUT_SHORT, position


@inlined
def _read_tables(marker: int, body: int, size: int, memory: Any) -> int:
    """Read a segment that may precede any scan (tables or restart interval); return a status."""
    status = GOOD
    if marker == _DHT:
        status = _read_huffman(body, size, memory.huffman)
    elif marker == _DQT:
        status = _read_quant(body, size, memory.quant)
    elif marker == _DRI and size == 2:
        memory.header.restart = be16(body)
    elif marker != _COM:
        status = BAD_HEADER
    return status


@inlined
def _read_first(marker: int, body: int, size: int, memory: Any) -> int:
    """Read a segment that may precede the first scan only (frame header, APP segments); return a status."""
    header, status = memory.header, GOOD
    if marker in (_SOF0, _SOF1, SOF2):
        status = _read_frame(body, size, header)
        header.frame = marker
    elif marker == _APP1:
        if header.orientation == 0:  # the first segment with the tag counts
            header.orientation = read_orientation(body, size)
            status = BAD_HEADER if header.orientation == BAD else GOOD
    elif marker == _APP14:
        if size >= 12 and load_u8(body) == 65 and load_u8(body + 1) == 100:
            header.adobe = 1 + signed(load_u8(body + 11))
    elif marker in (_DHT, _DQT, _DRI, _COM):
        status = _read_tables(marker, body, size, memory)
    elif marker < _APP0 or marker > _APP15:
        status = NOT_BASELINE
    return status


@inlined
def _read_frame(body: int, size: int, header: Any) -> int:
    """Read the frame header and return a status."""
    if header.height != 0 or size < 6:
        return BAD_HEADER
    height, width, components = be16(body + 1), be16(body + 3), signed(load_u8(body + 5))
    if load_u8(body) != 8:
        return NOT_BASELINE
    if height == 0 or width == 0 or height * width > _MAX_PIXELS:
        return BAD_HEADER
    if height > MOST_SIDE or width > MOST_SIDE or size != 6 + 3 * components:
        return BAD_HEADER
    if components != 1 and components != 3:
        return NOT_YCBCR
    header.height, header.width, header.components = height, width, components
    for component in range(components):
        entry = body + 6 + 3 * component
        factors = signed(load_u8(entry + 1))
        header.ids[component] = load_u8(entry)
        header.across[component] = factors >> 4
        header.down[component] = factors & 15
        if not (1 <= factors >> 4 <= 4 and 1 <= factors & 15 <= 4):
            return NOT_SUPPORTED
        header.quant[component] = load_u8(entry + 2)
    return GOOD


@inner
def _read_huffman(body: int, size: int, huffman: Any) -> int:
    """Copy the Huffman tables of a segment and return a status."""
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


@inner
def _read_quant(body: int, size: int, quant: Any) -> int:
    """Copy the quantisation tables of a segment, row by row, and return a status."""
    while size > 0:
        name = signed(load_u8(body))
        # A number above 15 means 16-bit entries, which baseline does not use.
        if size < 65 or name > 3:
            return BAD_TABLE
        for index in range(64):
            step = load_u8(body + 1 + index)
            if step == 0:
                return BAD_TABLE
            quant[name, ZIGZAG[index]] = step
        body += 65
        size -= 65
    return GOOD


@inlined
def _finish(body: int, size: int, header: Any, quant: Any, huffman: Any) -> int:
    """Read the first scan's header, and check that the file has its tables, and return a status."""
    components = header.components
    if components == 0:
        return BAD_HEADER
    if header.frame == SOF2 or (0 < size < 4 + 2 * components and load_u8(body) < components):
        status = _check_components(header)
        return SEVERAL_SCANS if status == GOOD else status
    if size != 4 + 2 * components or load_u8(body) != components:
        return BAD_HEADER
    tail = body + 1 + 2 * components
    if load_u8(tail) != 0 or load_u8(tail + 1) != 63 or load_u8(tail + 2) != 0:
        return BAD_HEADER
    for component in range(components):
        tables = signed(load_u8(body + 2 + 2 * component))
        if load_u8(body + 1 + 2 * component) != header.ids[component]:
            return BAD_HEADER
        if tables >> 4 > 3 or tables & 15 > 3 or header.quant[component] > 3:
            return BAD_TABLE
        header.dc[component] = tables >> 4
        header.ac[component] = 4 + (tables & 15)
        if quant[header.quant[component], 0] == 0:
            return BAD_TABLE
        for table in (header.dc[component], header.ac[component]):
            if huffman[table, 0] == MISSING:
                return BAD_TABLE
    return _check_components(header)


@inlined
def _check_components(header: Any) -> int:
    """Return a status: whether the decoder supports the colours and sampling factors."""
    if header.components == 1:
        # Sampling factors of a single component have no effect.
        header.across[0] = header.down[0] = 1
        return GOOD
    if header.adobe != 0 and header.adobe != 2:  # 2 is transform 1: YCbCr
        return NOT_YCBCR
    first, second, third = header.ids[0], header.ids[1], header.ids[2]
    if first == 82 and second == 71 and third == 66:  # "RGB"
        return NOT_YCBCR
    if first in (second, third) or second == third:
        return BAD_HEADER
    num_blocks = 0
    most_across = max(header.across[0], header.across[1], header.across[2])
    most_down = max(header.down[0], header.down[1], header.down[2])
    for component in range(3):
        across, down = header.across[component], header.down[component]
        num_blocks += across * down
        if most_across % across != 0 or most_down % down != 0:
            return NOT_SUPPORTED
    return GOOD if num_blocks <= MAX_BLOCKS else NOT_SUPPORTED
