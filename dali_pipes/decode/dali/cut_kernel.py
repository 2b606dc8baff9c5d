"""Compiled code that copies restart intervals of JPEGs into small JPEGs. `dali_pipes.decode.dali.cut` says what it does."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dali_pipes.decode.dali.cut_find import find_intervals
from dali_pipes.decode.dali.cut_grid import (
    COLUMNS,
    FRAME,
    HEIGHT,
    MARGINS,
    NUM_FIELDS,
    ORIENTATION,
    ROWS,
    SCAN,
    TILE_HEIGHT,
    TILE_WIDTH,
    WIDTH,
    Tiles,
    be16,
    is_metadata,
    read_tiles,
)
from gpu_aug.compiled.jit import kernel, load_be64, load_u8, signed, store_be64, store_u8, unsigned

SPARE = 64
"""How many bytes more than its file a cut may have while it is written."""

Grid = tuple[int, int, int, int]
"""First row and column of tiles, and last + 1."""

_WORTHWHILE = 0.9  # a cut that is not below this share of the file's bytes is not made
_SOI, _EOI, _RST0, _JFIF, _ADOBE = 0xFFD8, 0xFFD9, 0xFFD0, 0xFFE0, 0xFFEE


@kernel
def cut_all(
    files: NDArray[np.int64],
    crops: NDArray[np.int32],
    offsets: NDArray[np.int64],
    bounds: NDArray[np.int64],
    out: int,
    origins: NDArray[np.int32],
    sizes: NDArray[np.int32],
    ends: NDArray[np.int64],
) -> int:
    """Cut a crop out of every file.

    Args:
        files: int64 [n, 2]: address and length in bytes.
        crops: int32 [n, 4]: top, left, height, width, in the upright picture, as origins and sizes.
        offsets: int64: of all files where their intervals begin and the last one ends.
        bounds: int64 [n, 2]: from where to where `offsets` belong to a file; -1 where they are to be looked for.
        out: Address where the cuts are written, one after the other; there is room for the files and `SPARE` bytes.
        origins: int32 [n, 2], zeros: top and left of each cut.
        sizes: int32 [n, 2], zeros: height and width of each cut.
        ends: int64 [n], written: how many bytes the cuts have up to this one, which has none where the file is to be
            taken as it is.

    Returns:
        The first row whose crop lies outside its picture, whose size is then in `sizes`; -1 for none.
    """
    tiles = np.zeros(NUM_FIELDS, np.int64)
    found = np.zeros(1024, np.int64)
    end = 0
    for row in range(files.shape[0]):
        data, size = files[row, 0], files[row, 1]
        restarts = offsets[bounds[row, 0] : bounds[row, 1]]
        ends[row] = end
        if bounds[row, 0] == bounds[row, 1] or not read_tiles(data, size, tiles):
            continue
        if bounds[row, 0] < 0:
            count = tiles[ROWS] * tiles[COLUMNS] + 1
            if count == 1 or 2 * count > size:  # no grid, or more markers than there is room for
                continue
            if count > found.size:
                found = np.zeros(2 * count, np.int64)
            if not find_intervals(data, size, tiles, found):
                continue
            restarts = found[:count]
        _write_pair(sizes[row], tiles[HEIGHT], tiles[WIDTH], tiles)
        if not _is_inside(crops[row], sizes[row]):
            return row
        if tiles[COLUMNS] and _belong(data, size, tiles, restarts):
            grid = _touched(tiles, crops[row])
            length = _cut_one(data, size, tiles, restarts, grid, out + end)
            if length:
                end += length
                ends[row] = end
                _report(tiles, grid, origins[row], sizes[row])
    return -1


@kernel
def _is_inside(crop: Any, size: Any) -> bool:
    for side in range(2):
        first, extent = crop[side], crop[side + 2]
        if first < 0 or extent <= 0 or first > size[side] - extent:
            return False
    return True


@kernel
def _write_pair(pair: Any, down: int, across: int, tiles: Tiles) -> None:
    """Write two numbers, in the other order where the picture is turned by a quarter."""
    turned = tiles[ORIENTATION] >= 5
    pair[0] = across if turned else down
    pair[1] = down if turned else across


@kernel
def _mirrored(tiles: Tiles, side: int, first: int, extent: int) -> int:
    """Where a stretch begins when it is counted from the other end, if decoders mirror that side."""
    orientation = tiles[ORIENTATION]
    mirrored = (0b11011000 if side == 0 else 0b110001100) >> orientation & 1
    return tiles[HEIGHT + side] - first - extent if mirrored else first


@kernel
def _touched(tiles: Tiles, crop: Any) -> Grid:
    """Which tiles a crop needs."""
    turned = signed(tiles[ORIENTATION] >= 5)
    height, width = signed(crop[2 + turned]), signed(crop[3 - turned])
    top = _mirrored(tiles, 0, signed(crop[turned]), height)
    left = _mirrored(tiles, 1, signed(crop[1 - turned]), width)
    across, down = tiles[MARGINS] & 1, tiles[MARGINS] >> 1
    first_row = max(top - down, 0) // tiles[TILE_HEIGHT]
    first = max(left - across, 0) // tiles[TILE_WIDTH]
    last_row = min((top + height + down - 1) // tiles[TILE_HEIGHT] + 1, tiles[ROWS])
    last = min((left + width + across - 1) // tiles[TILE_WIDTH] + 1, tiles[COLUMNS])
    # libjpeg upsamples chroma that is only two pixels wide in another way.
    if across and first and tiles[WIDTH] - first * tiles[TILE_WIDTH] <= 8:
        first -= 1
    return first_row, first, last_row, last


@kernel
def _belong(data: int, size: int, tiles: Tiles, restarts: Any) -> bool:
    """Whether offsets are as many as the file has tiles, and begin and end where it does."""
    if restarts.size != tiles[ROWS] * tiles[COLUMNS] + 1:
        return False
    first, last = restarts[0], restarts[restarts.size - 1]
    return first == tiles[SCAN] and first <= last <= size - 2 and be16(data + last) == _EOI


@kernel
def _marker_behind(restarts: Any, tile: int) -> int:
    """Offset of the marker that ends a tile."""
    return signed(restarts[tile + 1] - 2 * (tile < restarts.size - 2))


@kernel
def _cut_one(data: int, size: int, tiles: Tiles, restarts: Any, grid: Grid, out: int) -> int:
    """Write a cut to `out`; returns its length, 0 where the file is to be taken as it is."""
    first_row, first, last_row, last = grid
    most = size * _WORTHWHILE
    at = _write_header(data, tiles, grid, out)
    count = 0
    for row in range(first_row, last_row):
        begin, end = row * tiles[COLUMNS] + first, row * tiles[COLUMNS] + last
        start, stop = restarts[begin], _marker_behind(restarts, end - 1)
        if not (tiles[SCAN] <= start <= stop <= size - 2) or at + stop - start + 2 > most:
            return 0
        if begin and be16(data + start - 2) != _RST0 + (begin - 1) % 8:
            return 0
        _copy(data + start, stop - start, out + at)
        for tile in range(begin, end):
            marker = _marker_behind(restarts, tile)
            expected = _RST0 + tile % 8 if tile < restarts.size - 2 else _EOI
            if not (start <= marker <= stop) or be16(data + marker) != expected:
                return 0
            _put16(out + at + marker - start, _RST0 + count % 8)
            count += 1
        at += stop - start + 2
    _put16(out + at - 2, _EOI)
    return at


@kernel
def _write_header(data: int, tiles: Tiles, grid: Grid, out: int) -> int:
    """Write start marker and header segments of a cut to `out`; returns how many bytes they are."""
    _put16(out, _SOI)
    at = 2
    if tiles[ORIENTATION] > 1:
        at = _write_orientation(tiles[ORIENTATION], out, at)
    position = 2
    while position < tiles[SCAN]:
        marker, length = be16(data + position), be16(data + position + 2) + 2
        if marker == 0xFFFF:  # padding
            position += 1
            continue
        if marker == _JFIF and length >= 18 and be16(data + position + 4) == 0x4A46:
            _copy(data + position, 16, out + at)
            _put16(out + at + 2, 16)
            _put16(out + at + 16, 0)  # no thumbnail
            at += 18
        elif (marker == _ADOBE and length == 16) or not is_metadata(marker - 0xFF00):
            _copy(data + position, length, out + at)
            if position == tiles[FRAME]:
                _put16(out + at + 5, _extent(tiles, grid, 0))
                _put16(out + at + 7, _extent(tiles, grid, 1))
            at += length
        position += length
    return at


@kernel
def _write_orientation(orientation: int, out: int, at: int) -> int:
    """Write an EXIF segment with nothing but the orientation; returns the offset behind it."""
    store_be64(out + at, unsigned(0xFFE1_0022_4578_6966))  # its length, "Exif"
    store_be64(out + at + 8, signed(0x4D4D_002A_0000))
    store_be64(out + at + 16, signed(0x0008_0001_0112_0003))
    store_be64(out + at + 24, signed(1 << 32 | orientation << 16))
    store_be64(out + at + 32, signed(0))
    return at + 36


@kernel
def _extent(tiles: Tiles, grid: Grid, side: int) -> int:
    """Height (side 0) or width (side 1) of the picture that tiles make up."""
    tile = tiles[TILE_HEIGHT + side]
    return signed(min(grid[2 + side] * tile, tiles[HEIGHT + side]) - grid[side] * tile)


@kernel
def _report(tiles: Tiles, grid: Grid, origin: Any, size: Any) -> None:
    """Write where a cut lies and how large it is."""
    height, width = _extent(tiles, grid, 0), _extent(tiles, grid, 1)
    top = _mirrored(tiles, 0, grid[0] * tiles[TILE_HEIGHT], height)
    left = _mirrored(tiles, 1, grid[1] * tiles[TILE_WIDTH], width)
    _write_pair(origin, top, left, tiles)
    _write_pair(size, height, width, tiles)


@kernel
def _copy(source: int, length: int, out: int) -> None:
    at = 0
    while at + 8 <= length:
        store_be64(out + at, signed(load_be64(source + at)))
        at += 8
    while at < length:
        store_u8(out + at, signed(load_u8(source + at)))
        at += 1


@kernel
def _put16(out: int, value: int) -> None:
    store_u8(out, value >> 8)
    store_u8(out + 1, value & 255)
