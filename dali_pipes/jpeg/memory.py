"""The memory of one call of the decoder: a record, whose fields compiled code reads and writes by name."""

from typing import Any

import numpy as np

from dali_pipes.jpeg.bitstream import BUFFER_BYTES
from dali_pipes.jpeg.huffman import BLOCK_BYTES
from dali_pipes.jpeg.huffman_tables import TABLE, TABLE_BYTES
from gpu_aug.compiled.jit import record_at

Record = Any
"""A record of compiled code; its fields are listed in this file."""


def numbers(names: str, **lists: int) -> "np.dtype[np.void]":
    """Return a record of int64 fields: single numbers, then lists of numbers."""
    singles = [(name, np.int64, ()) for name in names.split()]
    return np.dtype(singles + [(name, np.int64, (count,)) for name, count in lists.items()])


MAX_BLOCKS = 10
"""Blocks of an MCU; ITU-T T.81, B.2.3."""

_JOB = numbers(
    "data length top left height width full_height full_width shrink offsets num_offsets "
    "out row_bytes num_bytes seek_points num_seek_points every judge noted"
)
"""The arguments of a call.

data, length: Address and number of the file's bytes.
top, left, height, width: The crop in pixels of the upright image, unscaled, inside the image.
full_height, full_width: Expected size of the upright image; any will do where `out` is 0.
shrink: 1, 2, 4 or 8: of the image that is smaller by this, the rows from top // shrink on, ceil(height / shrink) of
    them, and columns likewise.
offsets, num_offsets: Address of int64 [n]: where in the file each restart interval begins; n is 0 where that is not
    known.
out, row_bytes: Address of the first pixel, uint8 [height, width, 3] after shrinking; bytes from one row to the next.
    `out` is 0, and the crop empty, where only the verdict on the file is wanted.
num_bytes: Size of the memory, at least `one_scan_bytes`.
seek_points, num_seek_points, every: Address of SEEK_POINT [n], and MCUs from one to the next; n is 0 where none are known.
judge: 1 where all codes are read for a verdict, and the seek points are written; n is the room for them then, and `every`
    is 0 where they are not wanted. 0 where the file is known to be sound, and the seek points are read.
noted: Number of seek points that were written; -1 as long as no code was read, where the status says nothing of a scan.
"""

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
components: Number of components, 1 or 3.
orientation: Of EXIF, 0 to 8.
restart: MCUs between restart markers, 0 for no markers.
scan: Offset of the scan's first byte, or of the first scan's header where there are several.
adobe: Adobe's colour transform + 1; 0 without Adobe's segment.
frame: Marker of the frame's header, such as SOF2 of a progressive JPEG.
ids, across, down: Number of each component, and its sampling factors.
quant, dc, ac: Numbers of the tables of each component; those of ac begin at 4.
"""

_GRID = numbers(
    "mcus_across mcus_down first_mcu last_mcu first_mcu_row last_mcu_row mcu_height "
    "num_blocks delay top left rows columns"
)
"""The MCUs of the image, and where the crop lies in it.

mcus_across, mcus_down: MCUs in the image.
first_mcu, last_mcu, first_mcu_row, last_mcu_row: Those that the crop needs, the last ones included.
mcu_height, num_blocks: Pixels of an MCU's height after scaling, and its blocks.
delay: Rows that need the next row of MCUs.
top, left, rows, columns: The crop in pixels of the stored, scaled image.
"""

_PLANE = numbers(
    "side grow_across grow_down fancy width height first_column last_column first_row last_row pixels row_bytes"
)
"""The pixels of one component.

side: Pixels of a block's side after scaling.
grow_across, grow_down: Pixels of the image for one of the component, in either direction.
fancy: Which directions are interpolated: ALONG_ROWS, ALONG_COLUMNS or both.
width, height: Size of the component in pixels.
first_column, last_column, first_row, last_row: Range of blocks that the crop needs, the last ones included.
pixels, row_bytes: Address of a row of context and then the pixels of one row of MCUs; bytes from row to row.
"""

BLOCK = numbers(
    "component across column row levels dc_search dc_symbols pairs hops ac_search ac_symbols "
    "first wanted out stride side steps dc_step masks most"
)
"""One of the blocks of an MCU of a scan.

component: Its number.
across: Blocks of this component across the MCU.
column, row: Of the block in the MCU, counted in blocks.
levels, dc_search, dc_symbols: Addresses in the DC table, if there is one; see ``huffman_tables.py``.
pairs, hops, ac_search, ac_symbols: Addresses in the AC table, if there is one; `pairs` may have entries of a refinement.
first, wanted: First block column that is wanted, and how many are; 0 for none in this row.
out: Address where the first wanted block's pixels or, of several scans, coefficients go.

Of a single scan also:
stride, side: Bytes from one row of pixels to the next, and side of the block in pixels, after scaling.
steps, dc_step: Address of the quantisation steps, and the first one.

Of several scans also:
masks: Address of the masks of this row, one for each block.
most: What DC values stay below, before they are shifted to their place.
"""

_TARGET = numbers("out row_step pixel_step next_row lines line_bytes")
"""The destination of the crop's pixels.

out: Address of the first pixel as it is stored.
row_step, pixel_step: Bytes from there to the next stored row and column; negative for some orientations.
next_row: The next row to write.
lines, line_bytes: Address of NUM_LINES lines to work in, and bytes of one.
"""

FEED = numbers(
    "source stop clean filled limit ended position bits buffer cleaned walked walked_to wide",
    prediction=3,
)
"""Position of reading in a scan; see ``bitstream.py``.

source, stop: Address of the next byte to clean, and where the file ends.
clean, filled, limit: Address of the buffer, where the clean bytes end in it, and how far it may be filled.
ended: Whether a marker came.
position: Address of the next byte to read.
bits, buffer: Number of bits that were read ahead, and the bits.
cleaned: Bytes in the buffer since reading began, or since the last restart marker.
walked, walked_to: Number of one of those bytes, from 0, and its address in the file.
wide: Not zero once a DC value was out of range.
prediction: The last DC value of each component.
"""

INTERVALS = numbers("mcus left number mcu until")
"""Position among the restart intervals.

mcus: MCUs to an interval; a huge number without restart markers.
left: MCUs that remain in the current one.
number: Number of the current one, from 0.
mcu: The number of the next MCU in the image.
until: MCUs up to the next seek point to be noted; a huge number where none is.
"""

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
"""The records above, one `planes` for each component, one of `blocks` for each block of an MCU, and:

tables: The Huffman tables in the forms that a scan uses, four for DC, four for AC; all of it is 0 in new memory.
quant: The quantisation tables, row by row.
huffman: Huffman tables as stored, four for DC, four for AC.
coefficients: The block that is being read, int16 [64], and bytes that are written behind it.
clean_bytes: Bytes of the scan; see ``bitstream.py``.
"""

memory_at = record_at(_MEMORY)
"""The memory at an address, for kernels."""

MEMORY_BYTES = _MEMORY.itemsize

MARGIN = 64
"""Bytes on either side of a row of pixels, for a vector of 64 that reaches over its end."""

NUM_LINES = 6
"""Lines of pixels to work in, behind the record: one for each component, three as long as one of RGB. Behind them lie
the planes of the components."""


def one_scan_bytes(width: int) -> int:
    """Return the bytes of memory for a file of one scan whose stored image is at most this wide."""
    line = width + 4 * 32 + 2 * 64
    # At most 33 lines to a component: one of context and four blocks.
    return MEMORY_BYTES + NUM_LINES * (line + 64) + 3 * 33 * (line + 2 * MARGIN) + MARGIN
