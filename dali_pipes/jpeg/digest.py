"""A digest of whole files: XXH64, https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md, with seed 0."""

import numpy as np
from numpy.typing import NDArray

from gpu_aug.compiled.jit import inlined, kernel, load_i32, load_i64, load_u8

_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)


@kernel
def digest_all(files: NDArray[np.int64], digests: NDArray[np.uint64]) -> None:
    """Digest files.

    Args:
        files: int64 [n, 2]: address and length in bytes.
        digests: uint64 [n], written.
    """
    for number in range(len(digests)):
        digests[number] = _digest(files[number, 0], files[number, 1])


@inlined
def _rotated(value: np.uint64, by: int) -> np.uint64:
    return value << np.uint64(by) | value >> np.uint64(64 - by)


@inlined
def _round(lane: np.uint64, word: np.uint64) -> np.uint64:
    return _rotated(lane + word * _P2, 31) * _P1


@inlined
def _merged(digest: np.uint64, lane: np.uint64) -> np.uint64:
    return (digest ^ _round(np.uint64(0), lane)) * _P1 + _P4


@inlined
def _word(address: int) -> np.uint64:
    return np.uint64(load_i64(address))


@kernel
def _digest(address: int, length: int) -> np.uint64:
    end = address + length
    if length >= 32:
        first, second, third, fourth = _P1 + _P2, _P2, np.uint64(0), np.uint64(0) - _P1
        while address + 32 <= end:
            first = _round(first, _word(address))
            second = _round(second, _word(address + 8))
            third = _round(third, _word(address + 16))
            fourth = _round(fourth, _word(address + 24))
            address += 32
        digest = _rotated(first, 1) + _rotated(second, 7) + _rotated(third, 12)
        digest += _rotated(fourth, 18)
        digest = _merged(_merged(_merged(_merged(digest, first), second), third), fourth)
    else:
        digest = _P5
    digest += np.uint64(length)
    while address + 8 <= end:
        digest = _rotated(digest ^ _round(np.uint64(0), _word(address)), 27) * _P1 + _P4
        address += 8
    if address + 4 <= end:
        word = np.uint64(load_i32(address) & 0xFFFFFFFF)
        digest = _rotated(digest ^ (word * _P1), 23) * _P2 + _P3
        address += 4
    while address < end:
        digest = _rotated(digest ^ (np.uint64(load_u8(address)) * _P5), 11) * _P1
        address += 1
    digest = (digest ^ (digest >> np.uint64(33))) * _P2
    digest = (digest ^ (digest >> np.uint64(29))) * _P3
    return digest ^ (digest >> np.uint64(32))
