"""CRC-32C, the checksum of TFRecord files, with NumPy alone: some 150 MB/s, and 3 us for eight bytes."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from readers.sample import Payload

_POLYNOMIAL = 0x82F63B78  # Castagnoli, bits mirrored
_LANE_BYTES = 64
_ONES = 0xFFFF_FFFF


def crc32c(data: Payload) -> int:
    """CRC-32C of bytes (RFC 3720): 0xE3069283 for b"123456789"."""
    if len(data) < 256:
        return _short(data)
    # Zeros in front of a checksum that begins at zero change nothing, so the bytes fill whole lanes.
    num_lanes = 1 << (-(-len(data) // _LANE_BYTES) - 1).bit_length()
    lanes = np.zeros(num_lanes * _LANE_BYTES, np.uint8)
    lanes[-len(data) :] = np.frombuffer(data, np.uint8)
    lanes[-len(data) : 4 - len(data)] ^= 0xFF  # it begins at ones
    tables = _tables()
    crc = np.zeros(num_lanes, np.uint32)
    for place, column in enumerate(lanes.reshape(num_lanes, _LANE_BYTES).T):
        crc ^= tables[_LANE_BYTES - 1 - place][column]
    num_zeros = _LANE_BYTES
    while len(crc) > 1:
        crc = _append_zeros(crc[::2], num_zeros) ^ crc[1::2]
        num_zeros *= 2
    return int(crc[0]) ^ _ONES


def masked(crc: int) -> int:
    """A checksum as TFRecord files store it."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & _ONES


def find_checked_lengths(data: Payload) -> NDArray[np.int64]:
    """Places at which eight bytes and their masked checksum stand, int64 [found], increasing."""
    content = np.frombuffer(data, np.uint8)
    num_places = len(content) - 11
    if num_places <= 0:
        return np.empty(0, np.int64)
    tables = _tables()
    crc = np.full(num_places, _ONES, np.uint32)
    for place in range(8):
        byte = content[place : place + num_places]
        crc ^= tables[7 - place][byte ^ 0xFF if place < 4 else byte]
    crc = (crc >> np.uint32(15) | crc << np.uint32(17)) + np.uint32(0xA282EAD8)
    stored = np.ndarray((num_places,), "<u4", content, 8, (1,))
    return np.flatnonzero(crc == stored)


def _short(data: Payload) -> int:
    crc, table = _ONES, _first_table()
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ _ONES


@cache
def _first_table() -> list[int]:
    table = []
    for crc in range(256):
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
        table.append(crc)
    return table


@cache
def _tables() -> NDArray[np.uint32]:
    """[lane bytes, 256]: what a byte leaves in the checksum when so many zeros follow it."""
    tables = np.empty((_LANE_BYTES, 256), np.uint32)
    tables[0] = _first_table()
    for place in range(1, _LANE_BYTES):
        tables[place] = tables[0][tables[place - 1] & 255] ^ tables[place - 1] >> 8
    return tables


@cache
def _zeros(num_zeros: int) -> NDArray[np.uint32]:
    """[4, 256]: what each byte of a checksum becomes when so many zeros (64, 128, 256, ...) follow."""
    if num_zeros > _LANE_BYTES:
        half = _zeros(num_zeros // 2)
        return _append_zeros(half.ravel(), num_zeros // 2).reshape(half.shape)
    shifted = np.arange(256, dtype=np.uint32) << np.arange(0, 32, 8, dtype=np.uint32)[:, None]
    for _ in range(num_zeros):
        shifted = _tables()[0][shifted & 255] ^ shifted >> 8
    return shifted


def _append_zeros(crc: NDArray[np.uint32], num_zeros: int) -> NDArray[np.uint32]:
    result = np.zeros(len(crc), np.uint32)
    for place, table in enumerate(_zeros(num_zeros)):
        result ^= table[crc >> np.uint32(8 * place) & np.uint32(255)]
    return result
