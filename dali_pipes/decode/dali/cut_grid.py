"""How the restart intervals of a JPEG lie in the picture, as a grid of tiles.

Restart intervals decode on their own. Where an interval's number of units (MCUs) divides the units of a row,
the intervals are a grid of tiles, each one unit high.
"""

import numpy as np
from numpy.typing import NDArray

from dali_pipes.jpeg.exif import BAD, read_orientation
from gpu_aug.compiled.jit import kernel, load_u8, signed

Tiles = NDArray[np.int64]
"""int64 [NUM_FIELDS], with the fields below."""

HEIGHT, WIDTH, ORIENTATION = 0, 1, 2
"""Pixels as stored, and the EXIF orientation, 1 to 8."""
FRAME, SCAN = 3, 4
"""Offsets of the frame's segment and of the scan's first compressed byte."""
INTERVAL = 5
"""How many units an interval has; 0 without restart markers."""
ROWS, COLUMNS, TILE_HEIGHT, TILE_WIDTH = 6, 7, 8, 9
"""Rows and columns of the grid; columns are 0 if the intervals are no grid."""
MARGINS = 10
"""Whether chroma is halved or more: 1 across, 2 down, 3 both, 0 not at all."""
NUM_FIELDS = 11

_SOF0, _SOF1, _DHT, _DQT, _DRI, _SOS = 0xC0, 0xC1, 0xC4, 0xDB, 0xDD, 0xDA
_APP0, _APP1, _APP15, _COM = 0xE0, 0xE1, 0xEF, 0xFE


@kernel
def read_tiles(data: int, size: int, tiles: Tiles) -> bool:
    """Read from a JPEG's header how its restart intervals lie.

    Args:
        data: Address of the file.
        size: Its length in bytes.
        tiles: Written.

    Returns:
        Whether it is a baseline JPEG of one scan, with or without restart markers.
    """
    tiles[:] = 0
    if size < 4 or be16(data) != 0xFFD8:
        return False
    position = 2
    while position + 4 <= size:
        if be16(data + position) == 0xFFFF:  # padding
            position += 1
            continue
        marker, length = be16(data + position) - 0xFF00, be16(data + position + 2)
        body, end = data + position + 4, position + 2 + length
        if length < 2 or end > size:
            return False
        if marker == _SOS:
            tiles[SCAN] = end
            return length >= 3 and _lay_out(tiles, load_u8(body), data)
        if marker in (_SOF0, _SOF1):
            if tiles[FRAME] or length < 11 or length != 8 + 3 * signed(load_u8(body + 5)):
                return False
            tiles[FRAME] = position
        elif marker == _DRI:
            if length != 4:
                return False
            tiles[INTERVAL] = be16(body)
        elif marker == _APP1 and tiles[ORIENTATION] == 0:
            tiles[ORIENTATION] = read_orientation(body, length - 2)
            if tiles[ORIENTATION] == BAD:
                return False
        elif marker != _DHT and marker != _DQT and not is_metadata(marker):
            return False
        position = end
    return False


@kernel
def be16(address: int) -> int:
    """The two bytes at an address as a number that begins with the first one."""
    return signed(load_u8(address)) << 8 | signed(load_u8(address + 1))


@kernel
def is_metadata(marker: int) -> bool:
    """Whether a marker begins an application segment or a comment."""
    return _APP0 <= marker <= _APP15 or marker == _COM


@kernel
def _lay_out(tiles: Tiles, in_scan: int, data: int) -> bool:
    """Work out the grid; False if the scan does not hold all components or the frame is odd."""
    frame = data + tiles[FRAME] + 4
    components = signed(load_u8(frame + 5))
    if tiles[FRAME] == 0 or components != in_scan or load_u8(frame) != 8:
        return False
    widest, tallest, narrowest, flattest = 1, 1, 4, 4
    for component in range(components):
        factors = signed(load_u8(frame + 7 + 3 * component))
        across, down = factors >> 4, factors & 15
        if not (1 <= across <= 4 and 1 <= down <= 4):
            return False
        widest, tallest = max(widest, across), max(tallest, down)
        narrowest, flattest = min(narrowest, across), min(flattest, down)
    if components == 1:  # its sampling factors mean nothing
        widest, tallest, narrowest, flattest = 1, 1, 1, 1
    height, width = be16(frame + 1), be16(frame + 3)
    rows, per_row = -(-height // (8 * tallest)), -(-width // (8 * widest))
    tiles[HEIGHT], tiles[WIDTH] = height, width
    tiles[ORIENTATION] = max(tiles[ORIENTATION], 1)
    tiles[MARGINS] = (widest > narrowest) + 2 * (tallest > flattest)
    interval = tiles[INTERVAL]
    if interval and per_row % interval == 0:
        tiles[ROWS], tiles[COLUMNS] = rows, per_row // interval
        tiles[TILE_HEIGHT], tiles[TILE_WIDTH] = 8 * tallest, 8 * widest * interval
    return height > 0 and width > 0
