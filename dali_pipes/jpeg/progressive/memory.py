"""The memory for a file of several scans: a record per scan, and the coefficients of one row of MCUs."""

import numpy as np

from dali_pipes.jpeg.bitstream import BUFFER_BYTES
from dali_pipes.jpeg.huffman import BLOCK_BYTES
from dali_pipes.jpeg.huffman_tables import TABLE
from dali_pipes.jpeg.memory import BLOCK, FEED, INTERVALS, MAX_BLOCKS, numbers, one_scan_bytes
from gpu_aug.compiled.jit import record_at

MOST_SCANS = 32
"""libjpeg's usual script has ten scans; the record of each takes 21 kB."""
MOST_TABLES = 48
"""A scan uses one or two per component; libjpeg's usual script makes 15."""
MASK_BYTES = 8
"""A mask has one bit per coefficient of a block."""

_SCAN_NUMBERS = "kind end first last low empty num_units columns rows height spare"
_SCAN = np.dtype(
    [
        ("feed", FEED),
        ("intervals", INTERVALS),
        *((name, np.int64) for name in _SCAN_NUMBERS.split()),
        ("units", BLOCK, (MAX_BLOCKS,)),
        ("offsets", np.int16, (256,)),
        ("clean_bytes", np.uint8, ((BUFFER_BYTES + 63) // 64 * 64,)),
    ]
)
"""One scan.

feed, intervals: Position of reading; see ``dali_pipes/jpeg/memory.py``.
kind: DC_FIRST, DC_REFINE, AC_FIRST, AC_REFINE or SEQUENTIAL.
end: Address of the marker behind it.
first, last: Its band of coefficients; the last one is included.
low: Bit position of the numbers that the scan brings.
empty: Count of following blocks without new coefficients.
num_units, units: Blocks of its MCU.
columns, rows, height: MCUs across and down; and MCU rows of the scan per MCU row of the image.
spare: Address of a block for coefficients that are not needed.
offsets: Byte offset in a block of each coefficient of the band; all others are written behind the block.
clean_bytes: See ``dali_pipes/jpeg/bitstream.py``."""

_PART = numbers("first wanted blocks block_row_bytes masks mask_row_bytes")
"""One MCU row of a component.

first, wanted: First needed block column, and the number of needed columns; all of them if the file is judged.
blocks, block_row_bytes: Address of the needed blocks of coefficients, and bytes from one row to the next.
masks, mask_row_bytes: Address of the masks of all blocks, and bytes from row to row. A mask holds the nonzero
coefficients except the first."""

_SCANS = np.dtype(
    [
        ("num_scans", np.int64),
        ("num_tables", np.int64),
        ("parts", _PART, (3,)),
        ("known", np.int64, (3, 64)),
        ("quant", np.int16, (3, 64)),
        ("spare", np.uint8, (BLOCK_BYTES,)),
        ("tables", TABLE, (MOST_TABLES,)),
        ("scans", _SCAN, (MOST_SCANS,)),
    ]
)
"""All scans of a file.

num_scans, num_tables: Counts of scans and of tables in use.
known: The lowest bit that the scans so far bring of each coefficient of each component; UNKNOWN before the first scan.
quant: The quantisation steps of each component, row by row.
spare: A block for coefficients that are not needed."""

UNKNOWN = 99
"""Replaces the lowest bit of a coefficient that no scan has brought; larger than any bit position."""

scans_at = record_at(_SCANS)
"""The memory at an address, for kernels."""

scan_at = record_at(_SCAN)
"""The record of a scan at an address, for kernels."""

SCANS_BYTES = _SCANS.itemsize
SCAN_BYTES = _SCAN.itemsize
FIRST_SCAN = SCANS_BYTES - MOST_SCANS * SCAN_BYTES
"""Offset of the first scan in the memory, in bytes."""


def scratch_bytes(width: int) -> int:
    """Return the size in bytes of the memory for any file whose stored image is at most `width` wide."""
    row = MAX_BLOCKS * (width // 8 + 1) * (BLOCK_BYTES + MASK_BYTES)
    return one_scan_bytes(width) + SCANS_BYTES + row
