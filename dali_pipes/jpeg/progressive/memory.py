"""The memory for a file of several scans: a record of each scan, and one row of MCUs of coefficients."""

import numpy as np

from dali_pipes.jpeg.bitstream import BUFFER_BYTES
from dali_pipes.jpeg.huffman import BLOCK_BYTES
from dali_pipes.jpeg.huffman_tables import TABLE
from dali_pipes.jpeg.memory import BLOCK, FEED, INTERVALS, MAX_BLOCKS, numbers, one_scan_bytes
from gpu_aug.compiled.jit import record_at

MOST_SCANS = 32
"""The usual script of libjpeg has ten scans; each takes 21 kB."""
MOST_TABLES = 48
"""A scan uses one or two for each component; the usual script makes 15."""
MASK_BYTES = 8
"""A bit for each coefficient of a block."""

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
first, last: Its band of coefficients, the last one included.
low: Bit position of its numbers.
empty: Number of blocks that come next and have nothing new.
num_units, units: Blocks of its MCU.
columns, rows, height: MCUs across, and down; and rows of them in one row of MCUs of the image.
spare: Address of a block for coefficients that are not wanted.
offsets: The byte of a block at which each coefficient of the band lies; all others go behind the block.
clean_bytes: See ``dali_pipes/jpeg/bitstream.py``.
"""

_PART = numbers("first wanted blocks block_row_bytes masks mask_row_bytes")
"""One row of MCUs of a component.

first, wanted: First block column that is wanted, and how many are: all of them where the file is judged.
blocks, block_row_bytes: Address of the wanted blocks of coefficients, and bytes from one row to the next.
masks, mask_row_bytes: Address of the masks of all blocks: which coefficients (but the first) are not zero.
"""

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

num_scans, num_tables: Number of scans and tables in use.
known: The lowest bit that scans bring of each coefficient of each component; UNKNOWN before the first one.
quant: The quantisation steps of each component, row by row.
spare: A block for coefficients that are not wanted.
"""

UNKNOWN = 99
"""In place of the lowest bit of a coefficient that no scan has brought."""

scans_at = record_at(_SCANS)
"""The memory at an address, for kernels."""

scan_at = record_at(_SCAN)
"""One scan of it at an address, for kernels."""

SCANS_BYTES = _SCANS.itemsize
SCAN_BYTES = _SCAN.itemsize
FIRST_SCAN = SCANS_BYTES - MOST_SCANS * SCAN_BYTES
"""Offset of the first scan in the memory, in bytes."""


def scratch_bytes(width: int) -> int:
    """Return the bytes of memory for any file whose stored image is at most this wide."""
    row = MAX_BLOCKS * (width // 8 + 1) * (BLOCK_BYTES + MASK_BYTES)
    return one_scan_bytes(width) + SCANS_BYTES + row
