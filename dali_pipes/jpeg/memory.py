"""The memory of one call of the decoder: one record, whose fields compiled code reads and writes by name."""

from typing import Any

import numpy as np

from dali_pipes.jpeg.bitstream import BUFFER_BYTES
from dali_pipes.jpeg.header import TABLE_BYTES
from dali_pipes.jpeg.huffman import BLOCK_BYTES
from dali_pipes.jpeg.huffman_tables import FAST_LENGTH, SEARCH_LENGTH
from gpu_aug.compiled.jit import record_at

Record = Any
"""A record of compiled code; its fields are listed in this file."""


def numbers(names: str, **lists: int) -> "np.dtype[np.void]":
    """A record of int64: single ones, then some of several."""
    singles = [(name, np.int64, ()) for name in names.split()]
    return np.dtype(singles + [(name, np.int64, (count,)) for name, count in lists.items()])


_JOB = numbers(
    "data length top left height width full_height full_width shrink offsets num_offsets "
    "out row_bytes num_bytes checkpoints num_checkpoints every judge noted"
)
"""What the caller asks for.

data, length: Address of the file's bytes, and how many there are.
top, left, height, width: The crop in pixels of the upright image, unscaled, inside the image.
full_height, full_width: Expected size of the upright image.
shrink: 1, 2, 4 or 8: of the image that is smaller by this, the rows from top // shrink on, ceil(height / shrink) of
    them, and columns likewise.
offsets, num_offsets: Address of int64 [n]: where in the file each restart interval begins; n is 0 where that is not
    known.
out, row_bytes: Address of the first pixel, uint8 [height, width, 3] after shrinking; bytes from one row to the next.
num_bytes: Size of the memory, at least `one_scan_bytes`.
checkpoints, num_checkpoints, every: Address of CHECKPOINT [n], and MCUs from one to the next; n is 0 where none are known.
judge: 1 where all codes are read for a verdict, and the checkpoints are written; n is the room for them then, and `every`
    is 0 where nobody wants them. 0 where the file is known to be sound, and the checkpoints are read.
noted: How many checkpoints were written; -1 as long as no code was read, where the status says nothing of a scan.
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
"""What the file's header says.

height, width: Size as stored.
components: How many there are, 1 or 3.
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
delay: Rows that wait for the next row of MCUs.
top, left, rows, columns: The crop in pixels of the stored, scaled image.
"""

_PLANE = numbers(
    "side grow_across grow_down fancy width height first_column last_column first_row last_row pixels row_bytes"
)
"""The pixels of one component.

side: Pixels of a block's side after scaling.
grow_across, grow_down: How often a pixel is repeated in either direction.
fancy: Which directions are interpolated: ALONG_ROWS, ALONG_COLUMNS or both.
width, height: Size of the component in pixels.
first_column, last_column, first_row, last_row: Range of blocks that the crop needs, the last ones included.
pixels, row_bytes: Address of the pixels that are kept: a row of context, then those of one row of MCUs; bytes from
    row to row.
"""

_BLOCK = numbers(
    "component steps levels pairs hops dc_search ac_search dc_symbols ac_symbols "
    "column row across first wanted out stride side dc_step"
)
"""One of the blocks of an MCU.

component: Its number.
steps: Address of the quantisation steps.
levels, pairs, hops: Addresses of the fast tables; see ``huffman_tables.py``.
dc_search, ac_search, dc_symbols, ac_symbols: Addresses of the search tables and of the symbols.
column, row: Of the block in the MCU, counted in blocks.
across: Blocks of this component across an MCU.
first, wanted: First block column that is wanted, and how many are; 0 for none in this row of MCUs.
out, stride: Address where the first wanted block's pixels go, and bytes from one row of pixels to the next.
side: Side of the block in pixels, after scaling.
dc_step: The first quantisation step.
"""

_TARGET = numbers("out row_step pixel_step next_row lines line_bytes")
"""Where the crop's pixels go.

out: Address of the first pixel as it is stored.
row_step, pixel_step: Bytes from there to the next stored row and column; negative for some orientations.
next_row: The next row to write.
lines, line_bytes: Address of NUM_LINES lines to work in, and bytes of one.
"""

FEED = numbers(
    "source stop clean filled limit ended position bits buffer cleaned walked walked_to wide",
    prediction=3,
)
"""How far the scan has been read; see ``bitstream.py``.

source, stop: Address of the next byte to clean, and where the file ends.
clean, filled, limit: Address of the buffer, where the clean bytes end in it, and how far it may be filled.
ended: Whether a marker came.
position: Address of the next byte to read.
bits, buffer: How many bits were read ahead, and those.
cleaned: How many bytes were cleaned since reading began, or the last restart marker.
walked, walked_to: One of those, counted from 0, and its address in the file.
wide: Not zero once a DC value was out of range.
prediction: The last DC value of each component.
"""

INTERVALS = numbers("mcus left number mcu until")
"""The restart intervals.

mcus: MCUs to an interval; a huge number without restart markers.
left: Those left in this one.
number: Its number, from 0.
mcu: The number of the next MCU in the image.
until: MCUs up to the next checkpoint to be noted; a huge number where none is.
"""

_MADE = np.dtype(
    [("stored", np.uint8, (TABLE_BYTES,)), ("is_there", np.int64), ("harmless", np.int64)]
)
"""Which Huffman table was made ready last; files of one encoder have the same ones.

stored: The table as it is stored.
is_there: 1 once `single`, `search` and `pairs` are those of it, else 0.
harmless: Up to which number `hops` goes over coefficients; -1 where it is not those of the table.
"""

_MEMORY = np.dtype(
    [
        ("job", _JOB),
        ("header", _HEADER),
        ("grid", _GRID),
        ("planes", _PLANE, (3,)),
        ("blocks", _BLOCK, (10,)),
        ("target", _TARGET),
        ("feed", FEED),
        ("intervals", INTERVALS),
        ("pairs", np.int64, (4, FAST_LENGTH)),
        ("single", np.int32, (8, FAST_LENGTH)),
        ("hops", np.int32, (4, FAST_LENGTH)),
        ("search", np.int32, (8, SEARCH_LENGTH)),
        ("made", _MADE, (8,)),
        ("quant", np.int16, (4, 64)),
        ("huffman", np.uint8, (8, TABLE_BYTES)),
        ("coefficients", np.uint8, (BLOCK_BYTES,)),
        ("clean_bytes", np.uint8, ((BUFFER_BYTES + 63) // 64 * 64,)),
    ]
)
"""The records above, one `planes` for each component, one of `blocks` for each block of an MCU, and:

pairs, single, hops, search: The tables that a scan uses; see ``huffman_tables.py``.
made: Of each of them, what it was made of. All of it is 0 in new memory.
quant: The quantisation tables, row by row.
huffman: Huffman tables as stored, four for DC, four for AC.
coefficients: The block that is being read, int16 [64], and what is written behind it.
clean_bytes: Bytes of the scan; see ``bitstream.py``.
"""

memory_at = record_at(_MEMORY)
"""The memory at an address, for kernels."""

MEMORY_BYTES = _MEMORY.itemsize

MARGIN = 64
"""Bytes on either side of a row of pixels, for a vector that reaches over its end."""

NUM_LINES = 6
"""Lines of pixels to work in, behind the record: one for each component, three as long as one of RGB. Behind them lie
the planes of the components."""


def one_scan_bytes(width: int) -> int:
    """How much memory decoding a file of one scan takes where the stored image is at most this wide."""
    line = width + 4 * 32 + 2 * 64
    # At most 33 lines to a component: one of context and four blocks.
    return MEMORY_BYTES + NUM_LINES * (line + 64) + 3 * 33 * (line + 2 * MARGIN) + MARGIN
