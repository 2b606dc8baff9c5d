"""Read stored seek points of many images from files in one compiled call; see `readers.jpeg_seek_points.layout`."""

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dali_pipes.jpeg.file_bytes import read_bytes
from dali_pipes.jpeg.seek_points import SEEK_POINT, UNREAD
from gpu_aug.compiled.jit import inlined, inner, kernel, load_i64, load_u8, record_at, signed
from readers.jpeg_seek_points.layout import HEAD_BYTES, SLOT, SLOT_BYTES

_slot_at = record_at(SLOT)
_CHECKED_BYTES = SLOT_BYTES - 4
_ROW_BYTES = SEEK_POINT.itemsize


def _crc_tables() -> NDArray[np.uint32]:
    """Return the CRC-32 of each byte followed by 0 to 7 zeros: uint32 [8, 256]."""
    found = [[zlib.crc32(bytes([byte, *[0] * zeros])) for byte in range(256)] for zeros in range(8)]
    nothing = [[zlib.crc32(bytes(1 + zeros))] for zeros in range(8)]
    tables: NDArray[np.uint32] = (np.array(found) ^ np.array(nothing)).astype(np.uint32)
    return tables


_CRC_TABLES = _crc_tables()
_ONES = np.uint64(0xFFFFFFFF)  # CRC-32 inverts its start value and its result


@kernel
def read_known(places: Any, digests: Any, known: Any, room: Any) -> int:
    """Read the stored statuses of images, each from a slot of a file, and the seek points to which the slots refer.

    Args:
        places: int64 [m, 4], for each slot: the index of its image, a file descriptor, the seed of its checksum, and
            the slot's index in the file. If an image has several slots, the first one with the image's digest counts.
        digests: uint64 [n], the digest of each image.
        known: KNOWN [n], written; its addresses are offsets in `room`.
        room: uint8 [...], written: the seek points. Its first SLOT_BYTES are scratch.

    Returns:
        The size in bytes that `room` needs; if it is smaller, the other outputs are undefined.
    """
    base, used = signed(room.ctypes.data), signed(SLOT_BYTES)
    for number in range(len(known)):
        known[number].status = UNREAD
        known[number].every = known[number].address = known[number].num_rows = 0
    for place in places:
        one = known[place[0]]
        if one.status != UNREAD or not _find_slot(base, place, digests[place[0]]):
            continue
        slot = _slot_at(base)
        length = signed(slot.num_bytes)
        if used + length <= len(room):
            rows = base + used
            if length % _ROW_BYTES or not read_bytes(place[1], rows, length, signed(slot.start)):
                continue
            if _extend_crc(rows, length, np.uint64(0)) != np.uint64(slot.crc):
                continue
            one.address, one.num_rows = used, length // _ROW_BYTES
            one.status, one.every = slot.status, slot.every
        used += length
    return used


@inlined
def _find_slot(base: int, place: Any, digest: np.uint64) -> bool:
    """Copy a slot of a file to an address; return whether its checksum is right and its digest matches."""
    number = place[3]
    if not read_bytes(place[1], base, signed(SLOT_BYTES), HEAD_BYTES + number * SLOT_BYTES):
        return False
    slot = _slot_at(base)
    if slot.digest != digest or slot.start == 0:
        return False
    seeded = _extend_crc_by_word(number, np.uint64(place[2]))
    return bool(_extend_crc(base, signed(_CHECKED_BYTES), seeded) == np.uint64(slot.check))


@inner
def _extend_crc(address: int, length: int, crc: np.uint64) -> np.uint64:
    """Extend a CRC-32, as zlib computes it, by the bytes at an address."""
    end = address + length
    while address + 8 <= end:
        crc = _extend_crc_by_word(load_i64(address), crc)
        address += 8
    state = crc ^ _ONES
    while address < end:
        state = _shift_in(0, state ^ np.uint64(load_u8(address))) ^ state >> np.uint64(8)
        address += 1
    return state ^ _ONES


@inlined
def _extend_crc_by_word(word: int, crc: np.uint64) -> np.uint64:
    """Extend a CRC-32 by the 8 bytes of an integer, little-endian."""
    mixed, state = np.uint64(word) ^ crc ^ _ONES, _ONES
    for place in range(8):
        state ^= _shift_in(7 - place, mixed)
        mixed >>= np.uint64(8)
    return state


@inlined
def _shift_in(zeros: int, byte: np.uint64) -> np.uint64:
    return np.uint64(_CRC_TABLES[zeros, byte & np.uint64(255)])
