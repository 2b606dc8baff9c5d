"""Compiled code that looks for the restart intervals of a JPEG: 6 us per 100 kB that nobody has read before."""

from typing import Any

from llvmlite import ir
from numba.core import types
from numpy.typing import NDArray

from dali_pipes.decode.dali.cut_grid import COLUMNS, ROWS, SCAN, Tiles
from gpu_aug.compiled.jit import intrinsic_of, kernel, load_u8, signed, unsigned

_AT_ONCE = 64
_RST0, _EOI = 0xD0, 0xD9


@kernel
def find_intervals(data: int, size: int, tiles: Tiles, offsets: "NDArray[Any]") -> bool:
    """Find where the intervals begin, and the end marker, as `readers.restart_offsets` does.

    Args:
        data: Address of the file.
        size: Its length in bytes.
        tiles: As `read_tiles` wrote it; its intervals are a grid.
        offsets: int64 [intervals + 1], written.

    Returns:
        Whether the file has the markers that its grid calls for.
    """
    last = tiles[ROWS] * tiles[COLUMNS]
    position, number = tiles[SCAN], 0
    offsets[0] = position
    while position + 2 <= size:
        if position + _AT_ONCE < size:
            marks = _markers_in(data + position)
        else:
            marks = _last_markers(data + position, size - position)
        while marks:
            at = position + signed(_lowest_bit(marks))
            code, number = load_u8(data + at + 1), number + 1
            if number == last:
                offsets[last] = at
                return bool(code == _EOI)
            if code != _RST0 + (number - 1) % 8:
                return False
            offsets[number] = at + 2
            marks &= marks - unsigned(1)
        position += _AT_ONCE
    return False


@kernel
def _last_markers(data: int, size: int) -> Any:
    """As `_markers_in` for the last bytes of a file."""
    marks = unsigned(0)
    for place in range(min(size - 1, _AT_ONCE)):
        if load_u8(data + place) == 0xFF and load_u8(data + place + 1) != 0:
            marks |= unsigned(1) << unsigned(place)
    return marks


def _markers(_context: Any, _address: Any) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        lanes = ir.VectorType(ir.IntType(8), _AT_ONCE)
        [here] = arguments
        found = []
        for shift, relation, byte in ((0, "==", 0xFF), (1, "!=", 0)):
            address = builder.add(here, ir.Constant(here.type, shift))
            loaded = builder.load(builder.inttoptr(address, lanes.as_pointer()))
            loaded.align = 1
            wanted = ir.Constant(lanes, [byte] * _AT_ONCE)
            found.append(builder.icmp_unsigned(relation, loaded, wanted))
        return builder.bitcast(builder.and_(*found), ir.IntType(_AT_ONCE))

    return types.uint64(types.uintp), generate


def _count_zeros(_context: Any, _bits: Any) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate


_markers_in: Any = intrinsic_of(_markers, 1)
"""Which of the 64 bytes at an address are 0xFF with another byte than zero behind: a bit each, the lowest first."""

_lowest_bit: Any = intrinsic_of(_count_zeros, 1)
"""The place of the lowest bit of a number that is not zero."""
