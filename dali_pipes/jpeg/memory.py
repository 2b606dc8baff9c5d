"""The memory of one decoder call: a record whose fields compiled code reads and writes by name."""

from typing import Any

import numpy as np

from dali_pipes.jpeg.bitstream import BUFFER_BYTES
from dali_pipes.jpeg.huffman import BLOCK_BYTES
from dali_pipes.jpeg.huffman_tables import TABLE, TABLE_BYTES
from gpu_aug.compiled.jit import record_at

Record = Any
"""A record of compiled code; its fields are listed in this file."""


def numbers(names: str, **lists: int) -> "np.dtype[np.void]":
    """Return a dtype of int64 fields: first single numbers, then lists of numbers."""
    singles = [(name, np.int64, ()) for name in names.split()]
    return np.dtype(singles + [(name, np.int64, (count,)) for name, count in lists.items()])


MAX_BLOCKS = 10
"""Largest number of blocks in an MCU; ITU-T T.81, B.2.3."""

_JOB = numbers(
    "data length top left height width full_height full_width shrink offsets num_offsets "
    "out row_bytes num_bytes seek_points num_seek_points every judge noted"
)
"""The arguments of a call.

data, length: Address of the file's bytes, and their count.
top, left, height, width: The crop in pixels of the upright image, unscaled, inside the image.
full_height, full_width: Expected size of the upright image; not checked if `out` is 0.
shrink: 1, 2, 4 or 8. The image is shrunk by this factor; the output begins at row top // shrink and has ceil(height /
shrink) rows, columns likewise.
offsets, num_offsets: Address of int64 [n], the offset of each restart interval in the file; n is 0 if unknown.
out, row_bytes: Address of the first pixel, uint8 [height, width, 3] after shrinking; bytes from one row to the next. If
only the verdict is requested, `out` is 0 and the crop is empty.
num_bytes: Size of the memory, at least `one_scan_bytes`.
seek_points, num_seek_points, every: Address of SEEK_POINT [n], n, and MCUs from one to the next; n is 0 if none are
known.
judge: 1 to read all codes for a verdict and write seek points; then n is the capacity, and `every` is 0 if they are not
requested. 0 for a file that is known to be sound; then seek points are read.
noted: Count of seek points that were written; -1 if no code was read, so that the status does not describe a scan."""

_HEADER = numbers(
    "height width components orientation restart scan adobe frame",
    ids=3,
    across=3,
    down=3,
    quant=3,
    dc=3,
    ac=3,
)
"""Contents of the file's header.

height, width: Size as stored.
components: Count of components, 1 or 3.
orientation: EXIF orientation, 0 to 8.
restart: MCUs between restart markers, 0 for no markers.
scan: Offset of the scan's first byte; of the first scan's header if there are several scans.
adobe: Adobe's colour transform + 1; 0 without Adobe's segment.
frame: Marker of the frame header, such as SOF2 for a progressive JPEG.
ids, across, down: Identifier and sampling factors of each component.
quant, dc, ac: Indices of the tables of each component; those of `ac` begin at 4."""

_GRID = numbers(
    "mcus_across mcus_down first_mcu last_mcu first_mcu_row last_mcu_row mcu_height "
    "num_blocks delay top left rows columns"
)
"""The MCUs of the image, and the position of the crop.

mcus_across, mcus_down: MCUs in the image.
first_mcu, last_mcu, first_mcu_row, last_mcu_row: MCUs that the crop needs; the last ones are included.
mcu_height, num_blocks: Height of an MCU in pixels after scaling, and its number of blocks.
delay: Rows of an MCU row that need the next MCU row.
top, left, rows, columns: The crop in pixels of the stored, scaled image."""

_PLANE = numbers(
    "side grow_across grow_down fancy width height first_column last_column first_row last_row pixels row_bytes"
)
"""The pixels of one component.

side: Side of a block in pixels after scaling.
grow_across, grow_down: Image pixels per pixel of the component, in either direction.
fancy: Directions of interpolation: ALONG_ROWS, ALONG_COLUMNS or both.
width, height: Size of the component in pixels.
first_column, last_column, first_row, last_row: Blocks that the crop needs; the last ones are included.
pixels, row_bytes: Address of a row of context, which the pixels of one MCU row follow; bytes from row to row."""

BLOCK = numbers(
    "component across column row levels dc_search dc_symbols pairs hops ac_search ac_symbols "
    "first wanted out stride side steps dc_step masks most"
)
"""One of the blocks of an MCU of a scan.

component: Index of the block's component.
across: Blocks of this component per row of the MCU.
column, row: Position of the block in the MCU, in blocks.
levels, dc_search, dc_symbols: Addresses in the DC table, if the scan has DC values; see ``huffman_tables.py``.
pairs, hops, ac_search, ac_symbols: Addresses in the AC table, if the scan has AC values; `pairs` may have entries of a
refinement.
first, wanted: First needed block column, and the number of needed columns; 0 if the row is not needed.
out: Address of the pixels of the first needed block; for files of several scans, of its coefficients.

For single scans:
stride, side: Bytes from one row of pixels to the next, and side of the block in pixels, after scaling.
steps, dc_step: Address of the quantisation steps, and the first one.

For several scans:
masks: Address of this row's masks, one per block.
most: Exclusive upper bound of DC values before they are shifted."""

_TARGET = numbers("out row_step pixel_step next_row lines line_bytes")
"""The destination of the crop's pixels.

out: Address of the first pixel in stored order.
row_step, pixel_step: Bytes to the next stored row and column; negative for some orientations.
next_row: The next row to write.
lines, line_bytes: Address of NUM_LINES scratch lines, and bytes per line."""

FEED = numbers(
    "source stop clean filled limit ended position bits buffer walked walked_to wide",
    prediction=3,
)
"""Position of reading in a scan; see ``bitstream.py``.

source, stop: Address of the next byte to copy, and the end of the file.
clean, filled, limit: Address of the buffer, end of the copied bytes in it, and how far it may be filled.
ended: Whether a marker was reached.
position: Address of the next byte to read.
bits, buffer: Count of bits that were read ahead, and the bits themselves.
walked, walked_to: Address of a byte in the buffer, and its address in the file.
wide: Nonzero once a DC value was out of range.
prediction: The last DC value of each component."""

INTERVALS = numbers("mcus left number mcu until")
"""Position among the restart intervals.

mcus: MCUs per interval; a huge number without restart markers.
left: Remaining MCUs of the current interval.
number: Index of the current interval.
mcu: Index of the next MCU in the image.
until: MCUs before the next seek point is written; a huge number if none is."""

_MEMORY = np.dtype(
    [
        ("job", _JOB),
        ("header", _HEADER),
        ("grid", _GRID),
        ("planes", _PLANE, (3,)),
        ("blocks", BLOCK, (MAX_BLOCKS,)),
        ("target", _TARGET),
        ("feed", FEED),
        ("intervals", INTERVALS),
        ("tables", TABLE, (8,)),
        ("quant", np.int16, (4, 64)),
        ("huffman", np.uint8, (8, TABLE_BYTES)),
        ("coefficients", np.uint8, (BLOCK_BYTES,)),
        ("clean_bytes", np.uint8, ((BUFFER_BYTES + 63) // 64 * 64,)),
    ]
)
"""All records above: one of `planes` per component, one of `blocks` per block of an MCU; and:

tables: The Huffman tables in the forms that a scan uses, four for DC, four for AC; all zero in new memory.
quant: The quantisation tables, row by row.
huffman: Huffman tables as stored, four for DC, four for AC.
coefficients: The current block, int16 [64], and the bytes behind it that are written, too.
clean_bytes: Bytes of the scan; see ``bitstream.py``."""

memory_at = record_at(_MEMORY)
"""The memory at an address, for kernels."""

MEMORY_BYTES = _MEMORY.itemsize

MARGIN = 64
"""Spare bytes on either side of a row of pixels, because a vector of 64 bytes may reach over its end."""

NUM_LINES = 6
"""Scratch lines of pixels behind the record: one per component, and three as long as a line of RGB. The planes of the
components follow them."""


def one_scan_bytes(width: int) -> int:
    """Return the size in bytes of the memory for a one-scan file whose stored image is at most `width` wide."""
    line = width + 4 * 32 + 2 * 64
    # At most 33 lines per component: one of context, and four blocks of eight.
    return MEMORY_BYTES + NUM_LINES * (line + 64) + 3 * 33 * (line + 2 * MARGIN) + MARGIN
