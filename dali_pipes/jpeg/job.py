"""What one call of the decoder is told, and how it divides its memory."""

from dali_pipes.jpeg.feed import BUFFER_BYTES, STATE_LENGTH
from dali_pipes.jpeg.header import HEADER_LENGTH, TABLE_BYTES
from dali_pipes.jpeg.layout import GRID_FIELDS, MARGIN, PART_FIELDS
from dali_pipes.jpeg.mcus import BLOCK_FIELDS
from dali_pipes.jpeg.pixels import TARGET_FIELDS
from dali_pipes.jpeg.symbols import BLOCK_SCRATCH
from dali_pipes.jpeg.tables import FAST_LENGTH, SEARCH_LENGTH

# Places in a job, int64 [JOB_FIELDS].
DATA, LENGTH = 0, 1
"""Address of the file's bytes, and how many there are."""
TOP, LEFT, HEIGHT, WIDTH = range(2, 6)
"""The window in pixels of the upright image, unscaled, inside the image."""
FULL_HEIGHT, FULL_WIDTH = 6, 7
"""Expected size of the upright image."""
SHRINK = 8
"""1, 2, 4 or 8: of the image that is smaller by this, the rows from top // shrink on, ceil(height / shrink) of
them, and columns likewise."""
OFFSETS, NUM_OFFSETS = 9, 10
"""Address of int64 [n]: where in the file each restart interval begins; n is 0 where that is not known."""
OUT, ROW_BYTES = 11, 12
"""Address of the first pixel, uint8 [height, width, 3] after shrinking; bytes from one row there to the next."""
SCRATCH, SCRATCH_BYTES = 13, 14
"""Address of memory to work in, aligned to 8 bytes, and its size: at least `scratch_bytes`."""
JOB_FIELDS = 15

# Where things lie in the memory, in bytes.
JOB = 0
HEADER = JOB + 8 * JOB_FIELDS
PARTS = HEADER + 8 * HEADER_LENGTH
GRID = PARTS + 8 * 3 * PART_FIELDS
BLOCKS = GRID + 8 * GRID_FIELDS
TARGET = BLOCKS + 8 * 10 * BLOCK_FIELDS
STATE = TARGET + 8 * TARGET_FIELDS
INTERVALS = STATE + 8 * STATE_LENGTH
PAIRS = INTERVALS + 8 * 3
SINGLE = PAIRS + 8 * 4 * FAST_LENGTH
HOPS = SINGLE + 4 * 8 * FAST_LENGTH
SEARCH = HOPS + 4 * 4 * FAST_LENGTH
QUANT = SEARCH + 4 * 8 * SEARCH_LENGTH
HUFFMAN = QUANT + 2 * 4 * 64
BLOCK = HUFFMAN + 8 * TABLE_BYTES
CLEAN = BLOCK + BLOCK_SCRATCH
LINES = CLEAN + (BUFFER_BYTES + 63) // 64 * 64
NUM_LINES = 6
"""Lines of pixels to work in, at LINES: one for each component, three as long as one of RGB. Behind them lie the
planes of the components."""


def scratch_bytes(width: int) -> int:
    """How much memory decoding takes where the stored image is at most this wide."""
    line = width + 4 * 32 + 2 * 64
    # At most 33 lines to a component: one of context and four blocks.
    return LINES + NUM_LINES * (line + 64) + 3 * 33 * (line + 2 * MARGIN) + MARGIN
